"""Stock clients under quotas: they get their rate, they are told so, and others notice nothing."""

import asyncio
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.clients.java_tools import JavaTools
from tests.clients.shared_java_tools import shared_java_tools
from tests.oracle.tool_runner import ToolRunner
from tests.support.broker import BrokerProcess, running_broker
from tests.support.quota_wire import set_quotas
from tests.support.wire import WireClient

RATE = 200_000  # a fraction of what a busy machine can do
SETTLED_S, MEASURED_S = 1.5, 5.0
VALUE = bytes(1000)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Return a broker whose clients may use one second of their quotas at once."""
    with running_broker(
        tmp_path_factory.mktemp("quotas"), "--set", "quota.window.num=2"
    ) as running:
        yield running


@pytest.fixture(scope="module")
def tools(broker: BrokerProcess, tool_runner: ToolRunner) -> JavaTools:
    return shared_java_tools(broker.bootstrap, tool_runner)


@pytest.fixture
def name(broker: BrokerProcess) -> str:
    """Return the name of a new topic and of a client."""
    made = f"quota-{uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(made, 1)])[made].result(60)
    return made


@dataclass(slots=True)
class Measured:
    """What a client has moved after it had time to settle, and what it was told.

    Attributes:
        throttled_s: each change of the throttle time that librdkafka tells of.
    """

    size: int = 0
    seconds: float = 0.0
    throttled_s: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Bytes of values a second."""
        return self.size / self.seconds


def produce(bootstrap: str, client_id: str, topic: str) -> Measured:
    """Produce as fast as possible for a while."""
    measured, acknowledged = Measured(), [0]
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": client_id,
            "batch.size": 10_000,
            "linger.ms": 5,
            "queue.buffering.max.kbytes": 4000,
            "throttle_cb": lambda event: measured.throttled_s.append(event.throttle_time),
        }
    )

    def delivered(error: object, _: object) -> None:
        if error is None:  # else it was purged in the end
            acknowledged[0] += len(VALUE)

    began_s, before = time.monotonic(), 0
    while (elapsed_s := time.monotonic() - began_s) < SETTLED_S + MEASURED_S:
        try:
            producer.produce(topic, VALUE, callback=delivered)
            producer.poll(0)
        except BufferError:
            producer.poll(0.01)
        if elapsed_s < SETTLED_S:
            before, measured.seconds = acknowledged[0], -elapsed_s
    measured.size, measured.seconds = acknowledged[0] - before, measured.seconds + elapsed_s
    producer.purge()
    producer.flush(0)
    return measured


def consume(bootstrap: str, client_id: str, topic: str) -> Measured:
    """Read the topic from its beginning for a while."""
    measured = Measured()
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": client_id,
            "group.id": client_id,
            "auto.offset.reset": "earliest",
            "fetch.message.max.bytes": 20_000,
            "throttle_cb": lambda event: measured.throttled_s.append(event.throttle_time),
        }
    )
    consumer.subscribe([topic])
    size, began_s, before = 0, 0.0, 0
    while not began_s or time.monotonic() - began_s < SETTLED_S + MEASURED_S:
        for message in consumer.consume(100, 0.1):
            assert message.error() is None, message.error()
            size += len(message.value() or b"")
        began_s = began_s or (time.monotonic() if size else 0.0)
        elapsed_s = time.monotonic() - began_s
        if elapsed_s < SETTLED_S:
            before, measured.seconds = size, -elapsed_s
    measured.size = size - before
    measured.seconds += time.monotonic() - began_s
    consumer.close()
    return measured


def set_quota(broker: BrokerProcess, client_id: str, **quotas: float) -> None:
    async def ask() -> None:
        async with await WireClient.connect(broker.bootstrap) as wire:
            await set_quotas(wire, client_id, **quotas)

    asyncio.run(ask())


def test_a_producer_gets_its_rate_and_another_one_beside_it_its_speed(
    broker: BrokerProcess, name: str
) -> None:
    # Given a quota of 200 KB/s for one of two producers
    set_quota(broker, name, producer_byte_rate=RATE)
    free: list[Measured] = []
    beside = threading.Thread(
        target=lambda: free.append(produce(broker.bootstrap, "free", name)), daemon=True
    )

    # When both produce as fast as they can
    beside.start()
    limited = produce(broker.bootstrap, name, name)
    beside.join()

    # Then one gets 200 KB/s and is told to wait, the other one several times as much
    possible = min(RATE, free[0].rate / 4)  # a machine may be too slow for that
    assert 0.85 * possible < limited.rate < 1.15 * RATE
    assert max(limited.throttled_s) > 0.01
    assert free[0].rate > 2 * limited.rate
    assert not free[0].throttled_s


def test_a_consumer_gets_its_rate(broker: BrokerProcess, name: str) -> None:
    # Given 10 MB, and a quota of 200 KB/s for one of two consumers
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for _ in range(10_000):
        producer.produce(name, VALUE)
    assert producer.flush(120) == 0
    set_quota(broker, name, consumer_byte_rate=RATE)

    # When it reads, then it gets 200 KB/s and is told to wait
    limited = consume(broker.bootstrap, name, name)
    assert 0.85 * RATE < limited.rate < 1.15 * RATE
    assert max(limited.throttled_s) > 0.01


def test_the_java_producer_is_told_to_wait(
    broker: BrokerProcess, tools: JavaTools, name: str
) -> None:
    # Given a quota of 100 KB/s, and three seconds' worth of records
    set_quota(broker, name, producer_byte_rate=RATE / 2)
    load = ("--num-records", "300", "--record-size", "1000", "--throughput", "-1")

    # When the stock load generator sends them
    client = ("--command-property", f"client.id={name}", "acks=all", "--print-metrics")
    output = tools.run("kafka-producer-perf-test", "--topic", name, *load, *client).stdout

    # Then its own metrics tell of it
    lines = [line for line in output.splitlines() if "produce-throttle-time-max" in line]
    assert [float(line.rpartition(":")[2]) > 10 for line in lines] == [True], output


def test_the_configs_tool_sets_shows_and_removes_quotas(tools: JavaTools) -> None:
    # Given a quota for the clients of a user
    user = f"user-{uuid4().hex[:8]}"
    of_user = ("--entity-type", "users", "--entity-name", user)
    entity = (*of_user, "--entity-type", "clients", "--entity-default")
    quotas = "producer_byte_rate=1024,request_percentage=99.5"
    tools.run("kafka-configs", "--alter", *entity, "--add-config", quotas)

    # Then the tool shows it, until it has removed it
    shown = tools.run("kafka-configs", "--describe", *entity).stdout
    assert shown == (
        f"Quota configs for user-principal '{user}', the default client-id are"
        " producer_byte_rate=1024.0, request_percentage=99.5\n"
    )
    tools.run("kafka-configs", "--alter", *entity, "--delete-config", "request_percentage")
    shown = tools.run("kafka-configs", "--describe", *entity).stdout
    assert shown.endswith("are producer_byte_rate=1024.0\n")
