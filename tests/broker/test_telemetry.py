"""Who may push which metrics when (KIP-714), by a clock that the test moves."""

import asyncio
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from broker.refusals import Refusal
from broker.telemetry import telemetry
from broker.telemetry.telemetry_wanted import kafka_text
from protocol.compression import Codec, compress
from tests.broker.telemetry_world import MAX_BYTES, Client, World, gauge
from tests.support.otlp import a_gauge, a_number, payload


def refused(client: Client) -> ErrorCode:
    with pytest.raises(Refusal) as refusal:
        client.ask()
    return refusal.value.code


@pytest.fixture
def world() -> World:
    return World()


async def test_without_a_subscription_a_client_comes_back_in_five_minutes(world: World) -> None:
    client = Client(world)
    wanted = client.ask()
    assert (wanted.metrics, wanted.interval_ms) == ((), 300_000)
    assert client.instance_id is not None
    assert not kafka_text(client.instance_id).startswith("-")

    # And it is told so when it comes earlier
    world.now_s += 298
    assert refused(client) is ErrorCode.throttling_quota_exceeded
    world.now_s += 1
    assert client.ask() == wanted


async def test_all_subscriptions_that_mean_a_client_count(world: World) -> None:
    # Given subscriptions for some clients, one of them for all metrics
    await world.subscribe(
        "java", metrics="org.b,org.a", interval_ms="5000", match="client_software_name=apache.*"
    )
    await world.subscribe("all", metrics="org.a,org.c", interval_ms="7000")
    await world.subscribe("other", metrics="*", interval_ms="100", match="client_id=other")

    # Then each client is asked for what those want together, as often as the most frequent one
    wanted = Client(world).ask()
    assert (wanted.metrics, wanted.interval_ms) == (("org.a", "org.b", "org.c"), 5000)
    other = Client(world, client_id="other").ask()
    assert (other.metrics, other.interval_ms) == (("*",), 100)


async def test_every_broker_gives_a_client_the_same_subscription_id(world: World) -> None:
    # Given two brokers with the same subscription, and a client that goes over to the other one
    there = World()
    for each in (world, there):
        await each.subscribe("all", metrics="org.b,org.a", interval_ms="1000")
    client = Client(world)
    client.ask()
    client.world = there

    # Then it goes on pushing; while another client has an id of its own
    assert await client.push(gauge(1.0)) is ErrorCode.none
    assert len(await there.exported()) == 1
    other = Client(world)
    assert other.ask().subscription_id != client.wanted.subscription_id  # type: ignore[union-attr]


async def test_a_client_pushes_once_in_its_interval(world: World) -> None:
    # Given a client that was told what to push, every second
    await world.subscribe("all", metrics="*", interval_ms="1000")
    client = Client(world)
    client.ask()

    # When it pushes at once (clients spread their first push), then that is fine
    assert await client.push(gauge(1.0)) is ErrorCode.none
    # When it does again too early, or asks, then it is told to wait
    world.now_s += 0.4
    assert await client.push(gauge(2.0)) is ErrorCode.throttling_quota_exceeded
    assert refused(client) is ErrorCode.throttling_quota_exceeded
    # When its interval has passed, but for what the push before may have been on its way for, then
    # it may; and it may always say that it ends, once
    world.now_s += 0.1
    assert await client.push(gauge(3.0)) is ErrorCode.none
    assert await client.push(gauge(4.0), terminating=True) is ErrorCode.none
    world.now_s += 1
    assert await client.push(gauge(5.0)) is ErrorCode.invalid_request
    (line,) = await world.exported()
    assert line.endswith(" 4.0")


async def test_a_client_learns_that_its_subscription_has_changed(world: World) -> None:
    # Given a client that pushes
    await world.subscribe("all", metrics="org.a", interval_ms="60000")
    client = Client(world)
    client.ask()
    assert await client.push() is ErrorCode.none

    # When another metric is wanted, then it is told with its next push, and may ask at once
    await world.subscribe("all", metrics="org.b")
    world.now_s += 60
    assert await client.push(gauge(1.0)) is ErrorCode.unknown_subscription_id
    assert client.ask().metrics == ("org.b",)
    assert await client.push(gauge(1.0)) is ErrorCode.none

    # When the subscription is gone, then there is nothing to push
    await world.subscribe("all", metrics=None, interval_ms=None)
    world.now_s += 60
    assert await client.push(gauge(1.0)) is ErrorCode.unknown_subscription_id
    assert client.ask().metrics == ()
    assert await client.push(gauge(2.0)) is ErrorCode.none
    (line,) = await world.exported()
    assert line.endswith(" 1.0")


async def test_what_is_wrong_with_a_push_has_a_code(world: World) -> None:
    await world.subscribe("all", metrics="*", interval_ms="100")
    client = Client(world)
    client.ask()

    async def push(data: bytes, codec: int = Codec.NONE) -> ErrorCode:
        world.now_s += 1
        return await client.push(data, codec=codec)

    assert await push(gauge(1.0), codec=5) is ErrorCode.unsupported_compression_type
    assert await push(b"\xff damaged") is ErrorCode.invalid_record
    assert await push(b"damaged", codec=Codec.ZSTD) is ErrorCode.invalid_record
    assert await push(bytes(MAX_BYTES + 1)) is ErrorCode.telemetry_too_large
    bomb = compress(Codec.GZIP, bytes(MAX_BYTES + 1))
    assert len(bomb) < 100
    assert await push(bomb, codec=Codec.GZIP) is ErrorCode.telemetry_too_large
    assert await world.exported() == []

    # And a push of many bytes, which a thread reads, is as good as a small one
    many = payload(*(a_gauge(f"org.{at}", a_number(at)) for at in range(600)))
    assert len(many) > 10_000
    assert await push(many) is ErrorCode.none
    assert world.series._series == 600

    # And no client has a reserved id
    for reserved in (None, UUID(int=0), UUID(int=1)):
        client.instance_id = reserved
        assert await push(gauge(1.0)) is ErrorCode.invalid_request


async def test_a_connection_may_name_any_number_of_clients(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given room for three clients, and connections that name more
    monkeypatch.setattr(telemetry, "MAX_CLIENTS", 3)
    one, other = Client(world), Client(world)
    for client in (one, other):
        for _ in range(5):
            client.instance_id = None
            client.ask()

    # Then no more are kept, and what comes by another connection now is of that one
    kept = world.telemetry._of_session
    assert [len(kept[each.session]) for each in (one, other)] == [0, 3]
    world.now_s += 300
    other.session, before = one.session, other.session
    other.ask()
    assert [len(kept[session]) for session in (one.session, before)] == [1, 2]

    # And when both have ended, then none is
    for session in (one.session, before):
        session.end()
    assert (kept, world.telemetry._clients) == ({}, {})


async def test_connections_take_turns_at_having_their_pushes_read(world: World) -> None:
    # Given a connection with many pushes under way, of clients that it names
    await world.subscribe("all", metrics="*", interval_ms="1000")
    many, one = Client(world), Client(world)
    data, done = compress(Codec.ZSTD, gauge(1.0)), list[str]()

    async def push(client: Client) -> None:
        assert await client.push(data, codec=Codec.ZSTD) is ErrorCode.none
        done.append(client.peer)

    pushes = []
    for _ in range(20):
        many.instance_id = None
        many.ask()
        pushes.append(asyncio.ensure_future(push(many)))
        await asyncio.sleep(0)

    # When another one pushes, then it waits for few of those
    one.ask()
    await push(one)
    assert len(done) < 10
    await asyncio.gather(*pushes)
