"""What a broker makes of the quotas that are set: who shares, who is forgotten, what is counted."""

import pytest
from prometheus_client import CollectorRegistry

from broker.configs.entity_configs import EntityConfigs
from broker.quotas.quota_entities import CLIENT_ID, IP, USER
from broker.quotas.quota_metrics import QuotaMetrics
from broker.quotas.quota_sensors import IDLE_S, RecentlyUsed
from broker.quotas.quota_table import QuotaTable
from broker.quotas.quotas import Quotas, QuotaWindows
from tests.broker.quotas.quota_world import HEADER, PRODUCE, FakeConnection, World


@pytest.fixture
def world() -> World:
    return World()


async def test_quotas_are_active_while_one_of_a_client_is_set(world: World) -> None:
    active = [world.quotas.active]
    await world.set({IP: None}, connection_creation_rate=5)  # no request's business
    active.append(world.quotas.active)
    await world.set({CLIENT_ID: "etl"}, producer_byte_rate=5)
    active.append(world.quotas.active)
    await world.set({CLIENT_ID: "etl"}, producer_byte_rate=None)
    active.append(world.quotas.active)
    assert active == [False, False, True, False]


async def test_a_change_of_another_broker_comes_with_the_next_poll(world: World) -> None:
    # Given two brokers
    there = EntityConfigs(world.store)
    other = Quotas(
        QuotaTable(there),
        windows=QuotaWindows(),
        metrics=QuotaMetrics(CollectorRegistry()),
        clock=lambda: world.now_s,
    )

    # When a quota is set at one of them, and the other one asks
    await world.set({CLIENT_ID: "etl"}, producer_byte_rate=100)
    await there.refresh()

    # Then it is in force there, for what happens there
    assert world.use(PRODUCE, 1000)[1].muted_s == 0
    connection = FakeConnection()
    other.use(connection, "etl", PRODUCE, 1100)
    assert connection.muted_s == 1


async def test_clients_of_a_user_share_and_others_are_not_looked_at(world: World) -> None:
    # Given 100 bytes a second for one user, hence 1,000 at once
    await world.set({USER: "ann"}, producer_byte_rate=100)

    # When two of its clients produce, then the second waits for what the first has used
    assert world.use(PRODUCE, 900, user="ann", client="one")[1].muted_s == 0
    use, connection = world.use(PRODUCE, 200, user="ann", client="two")
    assert connection.muted_s == 1
    assert not connection.reads_ahead

    # And nobody else
    use, connection = world.use(PRODUCE, 10**9, user="bob", client="one")
    assert use is None
    assert connection.muted_s == 0
    assert connection.reads_ahead


async def test_a_change_is_in_force_at_once_and_keeps_what_was_used(world: World) -> None:
    # Given a client that has used up its burst
    await world.set({CLIENT_ID: "etl"}, producer_byte_rate=100)
    assert world.use(PRODUCE, 1000)[1].muted_s == 0

    # When its quota is changed, then the next request counts towards the new one
    await world.set({CLIENT_ID: "etl"}, producer_byte_rate=10)
    assert world.use(PRODUCE, 100)[1].muted_s == 10

    # And after a more specific one for the same client only that one
    await world.set({CLIENT_ID: "etl", USER: None}, producer_byte_rate=1000)
    assert world.use(PRODUCE, 100)[1].muted_s == 0


async def test_answers_are_counted_by_api_and_violations_by_client(world: World) -> None:
    await world.set({CLIENT_ID: "etl"}, producer_byte_rate=1)
    use, _ = world.use(PRODUCE, 110)
    assert use is not None
    use.throttled(HEADER, None)
    labels = {"quota": "producer_byte_rate", "user": "", "client_id": "etl"}
    assert world.metric("streamhouse_quota_violations_total", **labels) == 1
    assert world.metric("streamhouse_quota_throttle_seconds_total", **labels) == 100
    assert world.metric("streamhouse_throttle_seconds_sum", api=PRODUCE) == 100


def test_idle_clients_are_forgotten_and_so_is_the_one_too_many() -> None:
    clients: RecentlyUsed[str, int] = RecentlyUsed(limit=2)
    for number, name in enumerate("abc"):
        clients.keep(name, number, now_s=number)
    assert clients.use("a", 3) is None
    assert clients.use("b", 3) == 1
    clients.keep("d", 3, now_s=4)
    assert clients.use("c", 4) is None, "it was used before b"
    clients.keep("e", 4, now_s=IDLE_S + 4)
    assert len(clients) == 2
    assert clients.use("b", IDLE_S + 4) is None


async def test_what_nobody_uses_any_more_is_no_metric(world: World) -> None:
    # Given a client that has violated its quota
    await world.set({CLIENT_ID: None}, producer_byte_rate=1)
    world.use(PRODUCE, 100, client="old")
    labels = {"quota": "producer_byte_rate", "user": "", "client_id": "old"}
    assert world.metric("streamhouse_quota_violations_total", **labels) == 1

    # When it has been silent for more than an hour
    world.now_s += IDLE_S + 1
    world.use(PRODUCE, 1, client="new")

    # Then it is forgotten
    assert world.metric("streamhouse_quota_violations_total", **labels) is None
