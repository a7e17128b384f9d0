"""What becomes of the metrics that clients push (KIP-714): series, which are bounded, and end."""

from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from broker.http.metrics_config import MetricsConfig
from broker.network.client_session import ClientSession
from broker.telemetry.telemetry_points import MAX_TEXT
from broker.telemetry.telemetry_wanted import kafka_text
from tests.broker.telemetry_world import Client, World, counter, gauge
from tests.support.otlp import a_gauge, a_number, payload


@pytest.fixture
def world() -> World:
    return World()


async def test_deltas_are_added_up_and_gauges_replaced(world: World) -> None:
    await world.subscribe("all", metrics="*", interval_ms="1000")
    client = Client(world, client_id='a"b')
    client.ask()
    for value in (3, 4):
        assert await client.push(counter(value)) is ErrorCode.none
        world.now_s += 1
        assert await client.push(gauge(float(value))) is ErrorCode.none
        world.now_s += 1
    labels = (
        f'client_id="a\\"b",client_instance_id="{kafka_text(client.instance_id or UUID(int=0))}",'
        'client_software="apache-kafka-java 4.3.1"'
    )
    assert await world.exported() == [
        f"org_apache_kafka_c_total{{{labels}}} 7",
        f"org_apache_kafka_g{{{labels}}} 4.0",
    ]


async def test_a_name_has_one_kind_whatever_clients_say(world: World) -> None:
    # Given two clients that use a name for different things
    await world.subscribe("all", metrics="*", interval_ms="1000")
    for data in (counter(1, "org.apache.kafka.x"), gauge(1.0, "org.apache.kafka.x.total")):
        client = Client(world)
        client.ask()
        assert await client.push(data) is ErrorCode.none

    # Then only those of the kind that came first are exported: Prometheus would refuse all else
    (line,) = await world.exported()
    assert line.startswith("org_apache_kafka_x_total{")
    assert line.endswith(" 1")


async def test_series_are_gone_when_their_client_is_silent(world: World) -> None:
    # Given a client that pushes every 100 seconds, and one that ends
    await world.subscribe("all", metrics="*", interval_ms="100000")
    silent, ended = Client(world), Client(world)
    for client in (silent, ended):
        client.ask()
        assert await client.push(gauge(1.0)) is ErrorCode.none
    ended.session.end()

    # Then the last values of the one that ended can be scraped for a minute, the other's for longer
    world.now_s += 59
    assert len(await world.exported()) == 2
    world.now_s += 1
    assert len(await world.exported()) == 1
    world.now_s += 139
    assert len(await world.exported()) == 1
    world.now_s += 1
    assert await world.exported() == []
    assert world.series._series == 0

    # And who comes back on another connection may ask at once
    ended.session = ClientSession()
    ended.ask()
    assert await ended.push(gauge(1.0)) is ErrorCode.none


async def test_what_a_client_says_of_itself_is_cut_off(world: World) -> None:
    await world.subscribe("all", metrics="*", interval_ms="1000")
    client = Client(world, client_id="x" * 30_000)
    client.ask()
    assert await client.push(gauge(1.0)) is ErrorCode.none
    (line,) = await world.exported()
    assert f'client_id="{"x" * MAX_TEXT}"' in line


async def test_the_number_of_series_is_bounded() -> None:
    # Given room for five series, three for each client
    world = World(MetricsConfig(client_max_series=5, client_max_series_each=3))
    await world.subscribe("all", metrics="*", interval_ms="1000")
    metrics = [a_gauge(f"org.apache.kafka.m{at}", a_number(at)) for at in range(4)]

    # When two clients push four each, then the rest is counted, and what is there goes on
    client, other = Client(world), Client(world)
    for each in (client, other):
        each.ask()
        assert await each.push(payload(*metrics)) is ErrorCode.none
    assert len(await world.exported()) == 5
    assert world.series._left_out._value.get() == 1 + 2
    world.now_s += 1
    assert await client.push(gauge(9.0, "org.apache.kafka.m0")) is ErrorCode.none
    assert any(line.endswith(" 9.0") for line in await world.exported())


async def test_a_connection_has_the_series_of_one_client_whatever_it_names() -> None:
    # Given room for three series of a client, and a connection that names clients without end
    world = World(MetricsConfig(client_max_series=50, client_max_series_each=3))
    await world.subscribe("all", metrics="*", interval_ms="1000")
    greedy, other = Client(world), Client(world)
    metrics = [a_gauge(f"org.apache.kafka.m{at}", a_number(at)) for at in range(3)]
    for _ in range(100):
        greedy.instance_id = None
        greedy.ask()
        assert await greedy.push(payload(*metrics)) is ErrorCode.none
    assert len(await world.exported()) == 3

    # Then there is room for others, and for it again when these are gone
    other.ask()
    assert await other.push(payload(*metrics)) is ErrorCode.none
    assert len(await world.exported()) == 6
    world.now_s += 61
    assert await world.exported() == []
    assert not world.series._series_of
    greedy.instance_id = None
    greedy.ask()
    assert await greedy.push(payload(*metrics)) is ErrorCode.none
    assert len(await world.exported()) == 3
