"""What a broker makes of the quotas that are set: who shares, who is forgotten, what is counted."""

import asyncio
from random import Random
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from prometheus_client import CollectorRegistry

from broker.configs.entity_configs import EntityConfigs
from broker.network.client_session import ANONYMOUS, ClientSession
from broker.quotas.quota_connections import UNLIMITED, ConnectionRates
from broker.quotas.quota_entities import CLIENT_ID, IP, USER, QuotaEntity
from broker.quotas.quota_meter import Metered
from broker.quotas.quota_metrics import QuotaMetrics
from broker.quotas.quota_sensors import IDLE_S, RecentlyUsed
from broker.quotas.quota_table import QuotaTable
from broker.quotas.quota_use import QuotaUse
from broker.quotas.quotas import Quotas, QuotaWindows
from broker.refusals import Refusal
from protocol.codec import RequestHeader
from storage.metadata.entity_configs import Entity, EntityChange, EntityKind
from storage.metadata.metadata_memory import MemoryMetadata

PRODUCE, FETCH, HEARTBEAT = "produce", "fetch", "heartbeat"
HEADER = RequestHeader(api_key=0, api_version=9, correlation_id=1, client_id="etl", body=0)


class FakeConnection:
    """Remembers what it is told."""

    def __init__(self, principal: str = ANONYMOUS) -> None:
        self.session = ClientSession()
        self.session.principal = principal
        self.muted_s = 0.0
        self.dismissed_s: float | None = None
        self.reads_ahead = True

    def mute(self, wait_s: float) -> None:
        self.muted_s = max(self.muted_s, wait_s)

    def postpone(self, wait_s: float) -> None:
        self.mute(wait_s)

    def dismiss(self, after_s: float) -> None:
        self.dismissed_s = after_s

    def read_one_ahead(self) -> None:
        self.reads_ahead = False

    def muted_ms(self) -> int:
        return round(self.muted_s * 1000)


class World:
    """Quotas on a clock of their own."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.store = MemoryMetadata(Random(7))
        self.configs = EntityConfigs(self.store)
        self.registry = CollectorRegistry()
        self.metrics = QuotaMetrics(self.registry)
        self.limit = UNLIMITED
        table = QuotaTable(self.configs)
        self.quotas = Quotas(
            table, windows=QuotaWindows(), metrics=self.metrics, clock=lambda: self.now_s
        )
        self.rates = ConnectionRates(
            table,
            limit=lambda: self.limit,
            burst_s=10,
            longest_s=1,
            metrics=self.metrics,
            clock=lambda: self.now_s,
        )

    async def set(self, parts: dict[str, str | None], **quotas: float | None) -> None:
        changes = {key: None if value is None else str(value) for key, value in quotas.items()}
        entity = Entity(EntityKind.CLIENT_QUOTA, QuotaEntity.of(parts.items()).text)
        await self.configs.alter([EntityChange(entity=entity, changes=changes)])

    def use(
        self, api: str = HEARTBEAT, size: int = 0, *, user: str = ANONYMOUS, client: str = "etl"
    ) -> tuple[QuotaUse | None, FakeConnection]:
        connection = FakeConnection(user)
        return self.quotas.use(connection, client, api, size), connection

    def limited(self, api: str = HEARTBEAT) -> tuple[QuotaUse, FakeConnection]:
        use, connection = self.use(api)
        assert use is not None
        return use, connection

    def metric(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)


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


async def test_a_burst_mutes_its_own_connection_and_the_others_for_a_window(world: World) -> None:
    # Given a quota of each kind that many connections share
    await world.set(
        {CLIENT_ID: "etl"}, producer_byte_rate=100, consumer_byte_rate=100, request_percentage=1e-4
    )

    # When one of them produces a hundred windows at once, and another one fetches as much
    _, producer = world.use(PRODUCE, 100_000)
    use, consumer = world.limited(FETCH)
    assert not use.refuses_fetch(100_000)

    async def handler() -> int:
        return sum(range(2_000_000))

    await use.metered(handler())
    use.throttled(HEADER, None)

    # Then these wait for all of it, and the others go on after ten seconds
    assert (producer.muted_s, consumer.muted_s) == (990, 990)
    use, other = world.limited(FETCH)
    assert use.refuses_fetch()
    assert other.muted_s == 10
    world.now_s += 10.02
    assert world.use(PRODUCE, 1)[1].muted_s == 0
    use, other = world.limited(FETCH)
    assert not use.refuses_fetch()
    use.throttled(HEADER, None)
    assert other.muted_s == 0


async def test_a_fetch_is_refused_while_anything_is_owed_and_not_counted(world: World) -> None:
    # Given a consumer that may have 1,000 bytes at once, and gets 200 more than that
    await world.set({CLIENT_ID: "etl"}, consumer_byte_rate=100)
    use, connection = world.limited(FETCH)
    assert use.fetchable_bytes(10**9) == 501
    assert not use.refuses_fetch(900)
    assert connection.muted_s == 0
    assert not use.refuses_fetch(300)
    assert connection.muted_s == 2

    # Then another connection that shares the quota gets nothing until that is paid for
    use, other = world.limited(FETCH)
    assert use.refuses_fetch()
    assert use.refuses_fetch(10**9)
    assert other.muted_s == 2
    world.now_s += 2
    assert not use.refuses_fetch()


async def test_a_batch_larger_than_what_others_leave_is_sent(world: World) -> None:
    # Given a quota of 10 bytes at once that two consumers share, so that it is never unused
    await world.set({CLIENT_ID: "etl"}, consumer_byte_rate=1)
    small, _ = world.limited(FETCH)
    large, connection = world.limited(FETCH)
    assert not small.refuses_fetch(1)

    # Then a batch of 100 is sent as soon as nothing is owed, and both wait for it afterwards
    assert not large.refuses_fetch(100)
    assert connection.muted_s == 91
    assert small.refuses_fetch(1)


async def test_what_began_before_a_change_makes_nobody_wait_after_it(world: World) -> None:
    # Given requests of a client that owes much of all its quotas
    rates = {
        "producer_byte_rate": 1,
        "consumer_byte_rate": 1,
        "controller_mutation_rate": 1,
        "request_percentage": 0.0001,
    }
    await world.set({CLIENT_ID: "etl"}, **rates)
    world.limited(FETCH)[0].refuses_fetch(1000)
    world.limited()[0].mutate(1000, strict=True)
    use, connection = world.limited()

    # When its quotas are removed, then the one under way is neither refused nor muted
    await world.set({CLIENT_ID: "etl"}, **dict.fromkeys(rates))
    assert not use.refuses_fetch(1000)
    use.mutate(1, strict=True)
    use.mutate(1, strict=False)

    async def handler() -> int:
        return sum(range(200_000))

    await use.metered(handler())
    use.throttled(HEADER, None)
    assert connection.muted_s == 0


async def test_the_smallest_share_of_time_is_no_error(world: World) -> None:
    await world.set({CLIENT_ID: "etl"}, request_percentage=5e-324)
    use, connection = world.limited()

    async def handler() -> int:
        return sum(range(200_000))

    await use.metered(handler())
    use.throttled(HEADER, None)
    assert connection.muted_s == 1


async def test_mutations_are_refused_only_where_the_client_knows_the_code(world: World) -> None:
    # Given one mutation a second, hence 11 at once
    await world.set({CLIENT_ID: "etl"}, controller_mutation_rate=1)

    # When a new client has taken 20, then nothing is said; the next one is refused
    use, connection = world.limited()
    use.mutate(20, strict=True)
    assert connection.muted_s == 0
    with pytest.raises(Refusal) as refused:
        use.mutate(1, strict=True)
    assert refused.value.code is ErrorCode.throttling_quota_exceeded
    assert connection.muted_s == 9

    # But an old client gets them, and waits
    use, connection = world.limited()
    use.mutate(1, strict=False)
    assert connection.muted_s == 10


async def test_time_on_the_event_loop_counts_and_is_waited_for_a_second_at_a_time(
    world: World,
) -> None:
    # Given a millionth of the event loop's time
    await world.set({CLIENT_ID: "etl"}, request_percentage=0.0001)
    use, connection = world.limited()

    # When a handler works, and waits
    async def handler() -> str:
        sum(range(200_000))
        await asyncio.sleep(0)
        sum(range(200_000))
        return "answer"

    assert await use.metered(handler()) == "answer"
    use.throttled(HEADER, None)

    # Then its connection is muted for one sample
    assert connection.muted_s == 1


async def test_a_metered_coroutine_behaves_as_ever() -> None:
    spent: list[float] = []

    async def failing() -> None:
        await asyncio.sleep(0)
        raise KeyError("as it comes")

    async def cancelled(cleaned: list[str]) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append("up")

    async def awaiting(work: Any) -> Any:
        return await work

    with pytest.raises(KeyError):
        await Metered(failing(), spent.append)
    cleaned: list[str] = []
    task = asyncio.ensure_future(awaiting(Metered(cancelled(cleaned), spent.append)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cleaned == ["up"]
    assert len(spent) == 4


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


async def test_connections_that_come_too_fast_are_closed_by_ip(world: World) -> None:
    # Given one connection a second of one address, hence ten at once
    await world.set({IP: "127.0.0.1"}, connection_creation_rate=1)

    async def connect(ip: str) -> FakeConnection:
        connection = FakeConnection()
        world.rates.admit(connection, ip)
        await asyncio.sleep(0)
        return connection

    # When eleven come, then the last one is to be closed a second later; others are served
    outcomes = [(await connect("127.0.0.1")).dismissed_s for _ in range(11)]
    assert outcomes == [None] * 10 + [1]
    assert (await connect("127.0.0.2")).dismissed_s is None
    assert world.metric("streamhouse_throttled_connections_total", limit="ip") == 1

    # And it did not count: the next one that comes in time is served
    world.now_s += 1
    assert (await connect("::ffff:127.0.0.1")).dismissed_s is None


async def test_connections_over_the_brokers_rate_are_served_later(world: World) -> None:
    world.limit = 2
    connections = [FakeConnection() for _ in range(22)]
    for connection in connections:
        world.rates.admit(connection, "127.0.0.1")
    await asyncio.sleep(0)
    assert [one.muted_s for one in connections] == [0] * 20 + [0.5, 1]


async def test_who_floods_the_broker_with_connections_leaves_no_debt(world: World) -> None:
    # Given five connections a second for the broker, and a thousand that come in no time
    world.limit = 5
    await world.set({IP: "127.0.0.9"}, connection_creation_rate=1000)
    flood = [FakeConnection() for _ in range(1000)]
    for connection in flood:
        world.rates.admit(connection, "127.0.0.9")
    await asyncio.sleep(0)

    # Then the first ones are served, at once or within a second, and the others are closed
    served = [one for one in flood if one.dismissed_s is None]
    assert len(served) == 55
    assert max(one.muted_s for one in served) == 1
    assert {one.dismissed_s for one in flood[len(served) :]} == {1}
    assert world.metric("streamhouse_throttled_connections_total", limit="broker") == 950

    # And what was closed did not count: who comes a second later is served within the next one
    world.now_s += 1
    other = FakeConnection()
    world.rates.admit(other, "127.0.0.2")
    await asyncio.sleep(0)
    assert (other.dismissed_s, other.muted_s) == (None, 0.2)

    # And who comes when the limit has been lowered does not wait for what was owed at the old one
    world.limit = 1
    another = FakeConnection()
    world.rates.admit(another, "127.0.0.2")
    await asyncio.sleep(0)
    assert (another.dismissed_s, another.muted_s) == (None, 0)
