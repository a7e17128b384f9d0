"""A real S3 server that asks for fewer requests, or answers some of them late."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from storage.config import KiB
from storage.errors import ObjectStoreUnavailable
from storage.objects import hedged_gets, s3_tries
from storage.objects.objects_s3 import S3Store
from storage.objects.store_health import StoreState
from storage.objects.store_traffic import StoreTraffic
from tests.contracts.object_stores import PATIENCE_S, fresh_s3_config
from tests.support.host import Stopwatch
from tests.support.s3_server import S3Server
from tests.support.throttling_proxy import ThrottlingProxy


@asynccontextmanager
async def behind_proxy(
    server: S3Server, *, deadline_s: float = PATIENCE_S
) -> AsyncIterator[tuple[ThrottlingProxy, S3Store, StoreTraffic]]:
    async with ThrottlingProxy.before(server.endpoint) as proxy:
        config = replace(fresh_s3_config(server), endpoint=proxy.endpoint, deadline_s=deadline_s)
        traffic = StoreTraffic()
        store = await S3Store.open(config, traffic)
        try:
            yield proxy, store, traffic
        finally:
            await store.close()


async def test_a_server_that_asks_for_fewer_requests_gets_fewer(s3_server: S3Server) -> None:
    async with behind_proxy(s3_server) as (proxy, store, traffic):
        # Given a server that takes two requests at a time
        proxy.max_in_flight = 2

        # When many are written and read at once
        stored = [str(number).encode() * KiB for number in range(40)]
        await asyncio.gather(*(store.put(f"wal/{at}", [one]) for at, one in enumerate(stored)))
        reads = (store.get(f"wal/{at}", 0, len(one)) for at, one in enumerate(stored))
        found = await asyncio.gather(*reads)

        # Then all succeed, and the server was soon asked for no more than it takes
        assert found == stored
        assert traffic.puts.throttled == proxy.refused["PUT"] > 0
        # (of a GET that was sent twice one refusal may be heard, or none, if the other wins)
        unheard = proxy.refused["GET"] - traffic.gets.throttled
        assert 0 <= unheard <= traffic.hedges.hedged
        assert traffic.gets.throttled > 0
        assert proxy.refused["PUT"] < 100
        assert proxy.refused["GET"] < 100
        assert traffic.puts.limit < 16
        assert traffic.gets.limit < 16
        assert traffic.health.state is StoreState.THROTTLED


@pytest.mark.alone
@pytest.mark.parametrize("verb", ["put", "get"])
async def test_one_that_refuses_all_is_not_hammered_and_given_up_at_the_deadline(
    s3_server: S3Server, verb: str
) -> None:
    async with behind_proxy(s3_server, deadline_s=2.0) as (proxy, store, traffic):
        # Given a server that refuses everything
        proxy.max_in_flight = 0

        # When 40 callers want something from it
        stopwatch = Stopwatch()
        wanted = (
            store.put(f"wal/{at}", [b"x"]) if verb == "put" else store.get(f"wal/{at}", 0, 1)
            for at in range(40)
        )
        outcomes = await asyncio.gather(*wanted, return_exceptions=True)

        # Then each gives up at its deadline, after few requests of all of them together
        assert [type(outcome) for outcome in outcomes] == [ObjectStoreUnavailable] * 40
        assert 1.9 < stopwatch.elapsed_s() < 4 + stopwatch.waited_s()
        assert "503 SlowDown" in str(outcomes[0])
        assert sum(proxy.asked.values()) < 200
        assert traffic.health.state is StoreState.THROTTLED


@pytest.mark.alone
async def test_a_get_without_an_answer_is_sent_again_on_another_connection(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_tries, "FIRST_ANSWER_S", PATIENCE_S / 2)
    async with behind_proxy(s3_server) as (proxy, store, traffic):
        # Given an object, and a server that will not answer the next GET
        await store.put("wal/1", [b"first"])
        with monkeypatch.context() as patient:  # nor sends this one twice
            patient.setattr(hedged_gets, "LEAST_LIMIT_S", PATIENCE_S)
            await store.get("wal/1", 0, 5)
        proxy.hang = 1

        # When it is read, then the second request wins, long before the first is given up
        began = time.monotonic()
        assert await store.get("wal/1", 0, 5) == b"first"
        assert time.monotonic() - began < PATIENCE_S / 2
        assert (traffic.hedges.hedged, traffic.hedges.won) == (1, 1)
        assert proxy.asked["GET"] == 3
        await store.get("wal/1", 1, 3)
