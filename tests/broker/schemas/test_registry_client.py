"""Who asks schema registries: one that hangs or fails, at one schema or at all, holds up few."""

import asyncio
import time

import pytest
from prometheus_client import CollectorRegistry

from broker.configs.broker_configs import read_broker_config
from broker.schemas.registry_breaker import FAILED_IN_A_ROW, RETRY_S, RETRY_SAME_S
from broker.schemas.registry_client import MAX_REQUESTS, RegistryClient, RegistryUnavailable
from broker.schemas.schema_metrics import RegistryMetrics
from broker.secrets_config import RegistryLogin
from storage.configs.config_types import InvalidConfig
from tests.broker.schemas.schema_wire import DEADLINE_S, ids, new_schema
from tests.support.fake_registry import FakeRegistry, fake_registry
from tests.support.host import Stopwatch

TIMEOUT_S = 0.5


def client_of(*registries: FakeRegistry) -> RegistryClient:
    return RegistryClient(
        [one.url for one in registries],
        login=RegistryLogin(),
        timeout_s=TIMEOUT_S,
        metrics=RegistryMetrics(CollectorRegistry()),
    )


async def answered(client: RegistryClient, schema_id: int) -> bool:
    try:
        return await client.get(f"/schemas/ids/{schema_id}") == {"schema": "{}"}
    except RegistryUnavailable:
        return False


async def answered_soon(client: RegistryClient, schema_id: int) -> None:
    """Ask until there is an answer, for no longer than it takes until one may ask again."""
    stopwatch = Stopwatch()
    while not await answered(client, schema_id):
        assert stopwatch.is_within(2 * RETRY_S)
        await asyncio.sleep(0.05)


async def until_lost(client: RegistryClient) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not client._registries[0].failure:
            await asyncio.sleep(0.01)


async def test_a_schema_that_the_registry_hangs_at_gives_way_to_others(
    registry: FakeRegistry,
) -> None:
    # Given a client of a registry that never answers for one schema
    client = client_of(registry)
    bad, good = new_schema(registry), new_schema(registry)
    registry.hanging = {bad}

    async def ask_always() -> None:
        while not await answered(client, bad):
            await asyncio.sleep(0.01)

    asking = asyncio.ensure_future(ask_always())
    try:
        # When another one is asked for meanwhile, then it is answered as soon as one may ask
        for _ in range(3):
            await until_lost(client)
            await answered_soon(client, good)
    finally:
        asking.cancel()
        registry.hanging = set()
        await client.close()


async def test_registries_that_fail_in_different_ways_are_given_up_together(
    registry: FakeRegistry,
) -> None:
    with fake_registry() as hanging:
        # Given a registry that hangs and one that has trouble with everything, and many who ask
        hanging.open.clear()
        registry.status = 503
        client = client_of(hanging, registry)
        assert not any(await asyncio.gather(*(answered(client, next(ids)) for _ in range(24))))
        before, stopwatch = registry.asked.total(), Stopwatch()
        assert hanging.asked.total() <= MAX_REQUESTS, "those that waited fail with the first"

        # When more come, then all are refused at once
        assert not any(await asyncio.gather(*(answered(client, next(ids)) for _ in range(24))))
        assert stopwatch.is_within(0.5 * RETRY_S)
        assert registry.asked.total() == before

        # And later but one of them waits, while it finds out whether one is back
        await asyncio.sleep(RETRY_S)
        assert not any(await asyncio.gather(*(answered(client, next(ids)) for _ in range(24))))
        assert registry.asked.total() <= before + 1
        assert hanging.asked.total() <= MAX_REQUESTS + 1

        # When one is, then it answers
        registry.status = 0
        good = new_schema(registry)
        async with asyncio.timeout(DEADLINE_S):
            while not await answered(client, good):
                await asyncio.sleep(0.05)
        assert await answered(client, new_schema(registry))
        await client.close()


async def test_a_registry_that_hangs_is_not_waited_for_by_each_who_asks_another(
    registry: FakeRegistry,
) -> None:
    with fake_registry() as hanging:
        # Given a registry that does not know some schemas, and one that hangs
        hanging.open.clear()
        client = client_of(registry, hanging)

        # When they are asked for, then the second is waited for once in a while
        began_s = time.monotonic()
        for _ in range(4):
            assert await client.get(f"/schemas/ids/{next(ids)}") is None
        assert 1 <= hanging.asked.total() <= 1 + (time.monotonic() - began_s) / RETRY_S
        await client.close()


async def test_many_schemas_that_the_registry_fails_at_give_way_to_others(
    registry: FakeRegistry,
) -> None:
    # Given a registry that has trouble with more schemas than make it look lost
    client = client_of(registry)
    bad = [new_schema(registry) for _ in range(2 * FAILED_IN_A_ROW)]
    registry.broken = set(bad)

    async def ask_always(schema_id: int) -> None:
        while not await answered(client, schema_id):
            await asyncio.sleep(0.01)

    asking = [asyncio.ensure_future(ask_always(one)) for one in bad]
    try:
        async with asyncio.timeout(DEADLINE_S):
            while not all(registry.asked[f"/schemas/ids/{one}"] for one in bad):
                await asyncio.sleep(0.05)

        # When others are asked for, then each is answered as soon as one may ask
        for _ in range(3):
            await until_lost(client)
            await answered_soon(client, new_schema(registry))

        # And they, too, when the registry has recovered
        registry.broken = set()
        async with asyncio.timeout(2 * RETRY_SAME_S):
            await asyncio.gather(*asking)
    finally:
        for one in asking:
            one.cancel()
        await client.close()


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("localhost:8081", "must be URLs"),
        ("ftp://registry", "must be URLs"),
        ("http://", "must be URLs"),
        ("http://[", "must be URLs"),
        ("http://registry:99999", "must be URLs"),
        ("http://registry?token=x", "must be URLs"),
        ("http://registry:8081,http://me:secret@registry", "must not hold a password"),
    ],
)
def test_a_registrys_url_is_checked_at_the_start(url: str, problem: str) -> None:
    with pytest.raises(InvalidConfig, match=problem) as invalid:
        read_broker_config({"confluent.schema.registry.url": url})
    assert "secret" not in str(invalid.value)
