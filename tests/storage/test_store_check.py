"""What readiness says of a store, by one look and by what other requests met."""

import asyncio

import pytest

from storage.errors import ObjectStoreUnavailable
from storage.objects.store_check import CHECK_S, check_store
from storage.objects.store_health import UNAVAILABLE_FAILURES, StoreState
from storage.objects.store_traffic import StoreTraffic
from tests.support import virtual_time
from tests.support.fakes.objects import MemoryStore


class LateStore(MemoryStore):
    """Every GET takes `late_s`, and fails if `broken`."""

    def __init__(self, late_s: float, *, broken: bool = False) -> None:
        super().__init__()
        self._late_s = late_s
        self._broken = broken

    async def get(self, path: str, start: int, length: int) -> bytearray:
        await asyncio.sleep(self._late_s)
        if self._broken:
            raise ObjectStoreUnavailable("no such host")
        return await super().get(path, start, length)


def check(store: LateStore, traffic: StoreTraffic) -> StoreState:
    async def main() -> StoreState:
        await store.put("mark", [b"x"])
        return await check_store(store, "mark", traffic)

    state: StoreState = virtual_time.run(main())
    return state


def test_a_store_that_answers_is_as_its_requests_say() -> None:
    traffic = StoreTraffic(lambda: 0.0)
    assert check(LateStore(0.1), traffic) is StoreState.OK
    traffic.health.throttled("GET")
    assert check(LateStore(0.1), traffic) is StoreState.THROTTLED


@pytest.mark.parametrize("store", [LateStore(60.0), LateStore(0.1, broken=True)])
def test_a_look_that_fails_counts_unless_others_get_through(store: LateStore) -> None:
    traffic = StoreTraffic(lambda: 0.0)
    with pytest.raises(ObjectStoreUnavailable, match=f"no answer in {CHECK_S}|no such host"):
        check(store, traffic)
    traffic.health.throttled("GET")
    assert check(store, traffic) is StoreState.THROTTLED
    for _ in range(UNAVAILABLE_FAILURES):
        traffic.health.failed("GET")
    with pytest.raises(ObjectStoreUnavailable):
        check(store, traffic)
