"""Three brokers on one Postgres and one S3 server, as deploy/compose.yaml runs them (D1).

Every test writes through one broker and reads through another. Each broker stands in a rack of its
own, so that all of them serve every partition, and a client that names a rack keeps to its broker.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import psutil
import pytest
from confluent_kafka import OFFSET_END, Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kio.schema.errors import ErrorCode

from broker.configs.dynamic_broker_config import CLUSTER_WIDE
from protocol.records import Record, build_batch
from tests.broker.admin.questions import BROKER, SET, UNSET, change, describe
from tests.broker.admin.wire import Wire
from tests.clients.confluent import Confluent
from tests.clients.kcat import kcat
from tests.clients.records import ConsumedRecord, SentRecord, by_partition, check_dense_offsets
from tests.support.broker import BrokerProcess, start_broker
from tests.support.three_brokers import Trio, three_brokers
from tests.support.tls import metric
from tests.support.wire import WireClient, milliseconds, request_entities

UNKNOWN_TOPIC: Final = ErrorCode.unknown_topic_or_partition
LONG_MS: Final = 60_000
SEEN_S: Final = 15.0  # far more than the polls of 0.1 s and 1 s need: the machine may be busy


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trio]:
    home = tmp_path_factory.mktemp("trio")
    with three_brokers(home, "--set", "auto.create.topics.enable=false", racks=True) as trio:
        yield trio


def numbered(name: str, count: int) -> list[SentRecord]:
    return [SentRecord(key=name.encode(), value=b"%d" % number) for number in range(count)]


def numbers(records: Sequence[ConsumedRecord], name: str) -> list[int]:
    """Return the values of one producer's records, in the order in which they are read."""
    return [int(record.value or b"") for record in records if record.key == name.encode()]


def written_by(brokers: Sequence[BrokerProcess]) -> list[float]:
    """Return how many records each of them has committed."""
    return [metric(broker, "streamhouse_records_committed_total") for broker in brokers]


def read_from(brokers: Sequence[BrokerProcess]) -> list[float]:
    """Return how often each of them has answered a Fetch with records of a partition."""
    return [metric(broker, "streamhouse_partition_reads_total") for broker in brokers]


def grown(before: Sequence[float], after: Sequence[float]) -> list[float]:
    return [now - earlier for earlier, now in zip(before, after, strict=True)]


def test_they_are_one_cluster(trio: Trio) -> None:
    clusters = {
        AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=10).cluster_id
        for bootstrap in trio.bootstraps
    }
    assert len(clusters) == 1


async def test_configs_of_the_cluster_reach_all_brokers(trio: Trio, topic: str) -> None:
    # Given a topic that all of them know
    brokers = [Wire("127.0.0.1", broker.port) for broker in trio.brokers]
    keys = ("max.message.bytes",)
    async with await WireClient.connect(trio.bootstraps[0]) as wire:
        await wire.create_topic(topic)

    async def all_say(value: str) -> None:
        async with asyncio.timeout(SEEN_S):
            for broker in brokers:
                while [one.value for one in describe(broker, topic, keys=keys).configs] != [value]:
                    await asyncio.sleep(0.05)

    # When the limit of all brokers is set at one of them, then all follow soon
    change(brokers[0], CLUSTER_WIDE, ("message.max.bytes", SET, "4321"), kind=BROKER)
    await all_say("4321")
    wide = [describe(broker, CLUSTER_WIDE, kind=BROKER).configs for broker in brokers]
    assert [(one.name, one.value) for (one,) in wide] == [("message.max.bytes", "4321")] * 3

    # And when it is unset at another, they are as they were
    change(brokers[1], CLUSTER_WIDE, ("message.max.bytes", UNSET, None), kind=BROKER)
    await all_say("1048588")


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0), (2, 0, 1)])
def test_a_new_topic_is_at_once_usable_everywhere(
    trio: Trio, topic: str, order: tuple[int, int, int]
) -> None:
    # Given a topic that one broker has just created
    creator, writer, reader = (trio.rack_clients[index] for index in order)
    creator.create_topic(topic, partition_count=2)

    # When another one is produced to
    writer.produce(topic, numbered("writer", 50))

    # Then the third has the topic and the records
    records = reader.consume(topic)
    assert numbers(records, "writer") == list(range(50))
    check_dense_offsets(records)


def test_kcat_writes_through_one_and_reads_through_another(trio: Trio, topic: str) -> None:
    trio.rack_clients[2].create_topic(topic, partition_count=3)
    lines = b"".join(b"key-%d\tvalue-%d\n" % (number, number) for number in range(100))
    written, read = written_by(trio.brokers), read_from(trio.brokers)
    kcat(trio.bootstraps[0], client_id="kcat,rack=a").produce(topic, lines)
    records = kcat(trio.bootstraps[1], client_id="kcat,rack=b").consume(topic)
    assert grown(written, written_by(trio.brokers)) == [100, 0, 0]
    assert [count > 0 for count in grown(read, read_from(trio.brokers))] == [False, True, False]
    assert {(record.key, record.value) for record in records} == {
        (b"key-%d" % number, b"value-%d" % number) for number in range(100)
    }
    check_dense_offsets(records)


def test_topics_created_at_the_same_time_are_known_to_all(trio: Trio, topic: str) -> None:
    # Given three brokers that create topics side by side, so that their commits interleave
    names = [[f"{topic}-{index}-{number}" for number in range(10)] for index in range(3)]

    def create(index: int) -> None:
        for name in names[index]:
            trio.rack_clients[index].create_topic(name, partition_count=1)

    with ThreadPoolExecutor() as pool:
        list(pool.map(create, range(3)))

    # When a moment has passed, then none has missed any
    created = {name for of_one in names for name in of_one}
    for bootstrap in trio.bootstraps:
        admin = AdminClient({"bootstrap.servers": bootstrap})
        deadline = time.monotonic() + SEEN_S
        while missing := created - admin.list_topics(timeout=10).topics.keys():
            assert time.monotonic() < deadline, missing


@pytest.mark.parametrize("max_wait_ms", [500, 0])
def test_a_consumer_at_the_end_sees_what_another_broker_commits(
    trio: Trio, topic: str, max_wait_ms: int
) -> None:
    # Given a consumer that waits at the end of a topic; with 0 it asks again and again instead
    trio.rack_clients[0].create_topic(topic, partition_count=1)
    settings: dict[str, Any] = {"group.id": "assigned-by-hand", "enable.auto.commit": False}
    settings |= {"fetch.wait.max.ms": max_wait_ms, "client.id": "test,rack=b"}
    settings["enable.partition.eof"] = True
    written, read = written_by(trio.brokers), read_from(trio.brokers)
    consumer = Consumer({"bootstrap.servers": trio.bootstraps[1], **settings})
    consumer.assign([TopicPartition(topic, 0, OFFSET_END)])
    try:
        ended = consumer.poll(SEEN_S)
        assert ended is not None
        assert is_end(ended), ended.error()

        # When records are committed by another broker, one by one
        # Then it has each of them soon
        for number in range(5):
            trio.rack_clients[0].produce(topic, [SentRecord(key=None, value=b"%d" % number)])
            message = next_record(consumer)
            assert message is not None, f"record {number} not seen in {SEEN_S} s"
            assert (message.error(), message.offset(), message.value()) == (
                None,
                number,
                b"%d" % number,
            )
    finally:
        consumer.close()
    assert grown(written, written_by(trio.brokers)) == [5, 0, 0]
    assert [count > 0 for count in grown(read, read_from(trio.brokers))] == [False, True, False]


def is_end(message: Message) -> bool:
    """Tell whether a consumer has come to the end of the partition, and no record."""
    error = message.error()
    return error is not None and error.code() == KafkaError._PARTITION_EOF


def next_record(consumer: Consumer) -> Message | None:
    """Return what a consumer is given that is not the end; None if nothing comes."""
    deadline = time.monotonic() + SEEN_S
    while (left_s := deadline - time.monotonic()) > 0:
        message = consumer.poll(left_s)
        if message is not None and not is_end(message):
            return message
    return None


async def test_a_fetch_for_many_bytes_is_answered_when_another_broker_commits_them(
    trio: Trio, topic: str
) -> None:
    async with (
        await WireClient.connect(trio.bootstraps[0]) as writer,
        await WireClient.connect(trio.bootstraps[1]) as reader,
    ):
        # Given a fetch that would wait long for 10,000 bytes
        await writer.create_topic(topic)
        fetch = asyncio.create_task(reader.fetch(topic, 0, max_wait_ms=LONG_MS, min_bytes=10_000))

        # When another broker commits as many
        value = Record(offset_delta=0, value=os.urandom(20_000))
        batch = build_batch([value], base_timestamp_ms=now_ms())
        assert (await writer.produce(topic, batch)).error_code == ErrorCode.none

        # Then it is answered with them, long before its time is over
        async with asyncio.timeout(SEEN_S):
            answer = await fetch
        assert len(answer.records) == len(batch)


async def test_a_fetch_that_waits_costs_next_to_nothing(trio: Trio, topic: str) -> None:
    async with await WireClient.connect(trio.bootstraps[0]) as wire:
        await wire.create_topic(topic)
        await wire.fetch(topic, 0, max_wait_ms=0)

        # Given what the broker does by itself meanwhile
        begun_s = cpu_s(trio.brokers[0])
        await asyncio.sleep(2)
        idle_s = cpu_s(trio.brokers[0])
        answer = await wire.fetch(topic, 0, max_wait_ms=2_000)
        ended_s = cpu_s(trio.brokers[0])
    assert answer.error_code == ErrorCode.none
    assert ended_s - idle_s < 0.4 + (idle_s - begun_s)


def cpu_s(broker: BrokerProcess) -> float:
    """Return the processor time that a broker has taken."""
    times = psutil.Process(broker.pid).cpu_times()
    return float(times.user + times.system)


def test_three_producers_through_three_brokers_write_one_log(trio: Trio, topic: str) -> None:
    # Given idempotent producers, each at a broker of its own, that write to the same partitions
    names, count = ("p1", "p2", "p3"), 1_000
    trio.rack_clients[0].create_topic(topic, partition_count=2)
    keys = {name: numbered(name, count) for name in names}

    # When all three write at the same time
    with ThreadPoolExecutor() as pool:
        clients = trio.rack_clients
        list(pool.map(lambda client, name: client.produce(topic, keys[name]), clients, names))

    # Then all brokers show the same log: dense, nothing twice, each producer's order kept
    first, *others = (by_partition(client.consume(topic)) for client in trio.rack_clients)
    assert all(other == first for other in others)
    records = [record for partition in sorted(first) for record in first[partition]]
    check_dense_offsets(records)
    for name in names:
        assert numbers(records, name) == list(range(count))


def test_a_producer_that_knows_all_three_brokers_loses_and_repeats_nothing(
    trio: Trio, topic: str
) -> None:
    # Given a producer that asks all of them for metadata again and again
    bootstrap, count = ",".join(trio.bootstraps), 2_000
    trio.rack_clients[0].create_topic(topic, partition_count=1)
    settings: dict[str, Any] = {"enable.idempotence": True, "linger.ms": 1}
    settings["topic.metadata.refresh.interval.ms"] = 50
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    failures: list[object] = []

    # When it writes for a while
    for number in range(count):
        producer.produce(topic, b"%d" % number, on_delivery=lambda error, _: failures.append(error))
        producer.poll(0.0005)
    assert producer.flush(30) == 0

    # Then the log has each record once, in order
    assert set(failures) == {None}
    records = trio.rack_clients[2].consume(topic)
    assert [int(record.value or b"") for record in records] == list(range(count))


async def test_a_deleted_topic_is_gone_everywhere(trio: Trio, topic: str) -> None:
    async with (
        await WireClient.connect(trio.bootstraps[0]) as first,
        await WireClient.connect(trio.bootstraps[1]) as second,
        await WireClient.connect(trio.bootstraps[2]) as third,
    ):
        # Given a topic that all know, and a fetch that waits at its end
        await first.create_topic(topic)
        batch = build_batch([Record(offset_delta=0, value=b"x")], base_timestamp_ms=now_ms())
        assert (await second.produce(topic, batch)).error_code == ErrorCode.none
        assert (await third.fetch(topic, 0)).error_code == ErrorCode.none
        waiting = asyncio.create_task(third.fetch(topic, 1, max_wait_ms=LONG_MS))

        # When one broker deletes it
        await delete_topic(first, topic)

        # Then another appends nothing to it, even before it has heard; who waits is told
        assert (await second.produce(topic, batch)).error_code == UNKNOWN_TOPIC
        async with asyncio.timeout(SEEN_S):
            assert (await waiting).error_code == UNKNOWN_TOPIC

        # And its name is free for a new topic, which begins at offset 0 for every broker
        await first.create_topic(topic)
        produced = await produce_when_known(second, topic, batch)
        assert produced.base_offset == 0
        assert (await end_when_known(third, topic)).offset == 1


def test_a_broker_may_come_and_be_killed_at_any_time(
    trio: Trio, topic: str, tmp_path: Path
) -> None:
    # Given a fourth broker, which has acknowledged records
    trio.rack_clients[0].create_topic(topic, partition_count=1)
    rack = ("--set", "broker.rack=d")
    fourth = start_broker(tmp_path, *trio.arguments, *rack, environment=trio.environment)
    client = Confluent(bootstrap=fourth.bootstrap, client_id="test,rack=d")
    client.produce(topic, numbered("fourth", 100))
    assert written_by([fourth]) == [100]

    # When it is killed
    fourth.kill()

    # Then the others have all of them, and go on writing where it ended
    trio.rack_clients[1].produce(topic, numbered("second", 1))
    for client in trio.rack_clients:
        records = client.consume(topic)
        assert numbers(records, "fourth") == list(range(100))
        assert [record.offset for record in records if record.key == b"second"] == [100]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


async def delete_topic(wire: WireClient, topic: str) -> None:
    module = request_entities(20, 6)
    state = module.DeleteTopicState(name=topic, topic_id=None)
    request = module.DeleteTopicsRequest(topics=(state,), timeout=milliseconds(10_000))
    response = await wire.ask(request)
    assert response.responses[0].error_code == ErrorCode.none


async def produce_when_known(wire: WireClient, topic: str, batch: bytes) -> Any:
    """Produce as a client does: again, as long as the broker has not heard of the topic."""
    return await when_known(lambda: wire.produce(topic, batch))


async def end_when_known(wire: WireClient, topic: str) -> Any:
    """Ask for the end offset as a client does, as produce_when_known."""
    return await when_known(lambda: wire.list_offset(topic, -1))


async def when_known(ask: Callable[[], Awaitable[Any]]) -> Any:
    deadline = time.monotonic() + SEEN_S
    while True:
        answer = await ask()
        if answer.error_code != UNKNOWN_TOPIC or time.monotonic() > deadline:
            return answer
