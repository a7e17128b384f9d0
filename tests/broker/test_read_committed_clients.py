"""Stock consumers on interleaved transactions: what each isolation level gets, whatever it fetches.

librdkafka writes: several producers side by side, one of them without transactions.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from random import Random
from typing import Final

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AiokafkaPartition
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.support.broker import BrokerProcess, start_broker
from tests.support.wire import WireClient

TIMEOUT_S: Final = 30.0
STEPS: Final = 60
COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"
CODECS: Final = ("none", "gzip", "lz4", "snappy", "zstd")
SMALL: Final = 300  # about one batch
LONGEST_MS: Final = 900_000
"""Of a transaction: what is open stays so, however long a busy machine takes to read."""
Values = list[bytes]


@dataclass
class Writers:
    """Producers of one topic, and what they have written.

    Attributes:
        opened: offset and value of the records of each open transaction, by its producer.
        stable: those that any consumer may read for good.
        aborted: those that only read_uncommitted gets.
    """

    bootstrap: str
    topic: str
    codec: str
    producers: dict[str, Producer] = field(default_factory=dict)
    opened: dict[str, list[tuple[int, bytes]]] = field(default_factory=dict)
    stable: list[tuple[int, bytes]] = field(default_factory=list)
    aborted: list[tuple[int, bytes]] = field(default_factory=list)
    written: int = 0

    def add(self, name: str, *, transactional: bool) -> None:
        settings: dict[str, object] = {
            "bootstrap.servers": self.bootstrap,
            "compression.type": self.codec,
            "linger.ms": 0,
        }
        if transactional:
            settings["transactional.id"] = f"{name}-of-{self.topic}"
            settings["transaction.timeout.ms"] = LONGEST_MS
        self.producers[name] = Producer(settings)
        if transactional:
            self.producers[name].init_transactions(TIMEOUT_S)

    def write(self, name: str, count: int) -> None:
        """Let a producer write some records, and wait until they have offsets."""
        sent = self.stable
        if name != "plain":
            if name not in self.opened:
                self.producers[name].begin_transaction()
            sent = self.opened.setdefault(name, [])

        def delivered(error: KafkaError | None, message: Message) -> None:
            offset, value = message.offset(), message.value()
            assert error is None, error
            assert offset is not None
            assert value is not None
            sent.append((offset, value))

        for _ in range(count):
            self.written += 1
            value = b"%d of %s" % (self.written, name.encode())
            self.producers[name].produce(self.topic, value, partition=0, on_delivery=delivered)
        assert self.producers[name].flush(TIMEOUT_S) == 0

    def end(self, name: str, *, committed: bool) -> None:
        if name not in self.opened:
            return
        if committed:
            self.producers[name].commit_transaction(TIMEOUT_S)
        else:
            self.producers[name].abort_transaction(TIMEOUT_S)
        (self.stable if committed else self.aborted).extend(self.opened.pop(name))

    def expected(self, isolation_level: str) -> Values:
        """Return what a consumer gets from the beginning to where it can read."""
        if isolation_level == UNCOMMITTED:
            opened = [one for each in self.opened.values() for one in each]
            return [value for _, value in sorted(self.stable + self.aborted + opened)]
        stable_end = min((each[0][0] for each in self.opened.values()), default=1 << 62)
        return [value for offset, value in sorted(self.stable) if offset < stable_end]


def interleave(writers: Writers, seed: int, between: Callable[[], None]) -> None:
    """Let producers write, commit and abort in an order of the seed; one stays open."""
    random = Random(seed)
    for name in ("plain", "a", "b", "c"):
        writers.add(name, transactional=name != "plain")
    for _ in range(STEPS):
        name = random.choice(["plain", "a", "b", "c"])
        action = random.choice(["write", "write", "commit", "abort"])
        if name == "plain" or action == "write":
            writers.write(name, random.randint(1, 20))
        else:
            writers.end(name, committed=action == "commit")
        between()
    for name in list(writers.opened):
        writers.end(name, committed=random.random() < 0.5)
    writers.write("a", 3)
    writers.write("plain", 2)
    between()


class Reading:
    """A consumer of librdkafka from the beginning on. Attributes: values is what it was given."""

    def __init__(self, bootstrap: str, topic: str, isolation_level: str, fetch_bytes: int) -> None:
        self.values = Values()
        self._ended = False
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "none",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": isolation_level,
                "fetch.message.max.bytes": fetch_bytes,
                "fetch.max.bytes": max(fetch_bytes, 1000),
                "message.max.bytes": 1000,
                "fetch.wait.max.ms": 20,
            }
        )
        self._consumer.assign([TopicPartition(topic, 0, 0)])

    def close(self) -> None:
        self._consumer.close()

    def take(self, timeout_s: float) -> None:
        """Take what is there by now."""
        for message in self._consumer.consume(1000, timeout_s):
            error, value = message.error(), message.value()
            if error is None and value is not None:
                self.values.append(value)
            elif error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            self._ended = error is not None

    def read_to(self, expected: Values) -> None:
        """Read until the end is reported, and there is as much as expected; no more comes then."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while not (self._ended and len(self.values) >= len(expected)):
            assert time.monotonic() < deadline_s, f"{len(self.values)} of {len(expected)}"
            self.take(0.1)
        self.take(0.1)
        assert self.values == expected


def read_by_librdkafka(
    bootstrap: str, topic: str, isolation_level: str, fetch_bytes: int, expected: Values
) -> None:
    with closing(Reading(bootstrap, topic, isolation_level, fetch_bytes)) as reading:
        reading.read_to(expected)


def read_by_aiokafka(
    bootstrap: str, topic: str, isolation_level: str, fetch_bytes: int, expected: Values
) -> None:
    async def read() -> Values:
        partition, values = AiokafkaPartition(topic, 0), Values()
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            isolation_level=isolation_level,
            max_partition_fetch_bytes=fetch_bytes,
            enable_auto_commit=False,
            fetch_max_wait_ms=20,
        )
        async with asyncio.timeout(TIMEOUT_S), consumer:
            consumer.assign([partition])
            await consumer.seek_to_beginning(partition)
            while len(values) < len(expected):
                fetched = await consumer.getmany(partition, timeout_ms=500)
                values += [one.value for one in fetched.get(partition, [])]
            nothing = await consumer.getmany(partition, timeout_ms=100)
            assert not nothing
        return values

    assert asyncio.run(read()) == expected


READERS = [read_by_librdkafka, read_by_aiokafka]


@pytest.fixture
def made(broker: BrokerProcess, topic: str) -> str:
    """Make the topic; return its name."""
    create(broker.bootstrap, topic)
    return topic


def create(bootstrap: str, topic: str) -> None:
    async def ask() -> None:
        async with await WireClient.connect(bootstrap) as wire:
            await wire.create_topic(topic)

    asyncio.run(ask())


@pytest.mark.parametrize("codec", CODECS)
def test_consumers_at_the_end_of_the_log(broker: BrokerProcess, made: str, codec: str) -> None:
    # Given consumers of both kinds that read along
    writers = Writers(broker.bootstrap, made, codec)
    with (
        closing(Reading(broker.bootstrap, made, COMMITTED, SMALL)) as committed,
        closing(Reading(broker.bootstrap, made, UNCOMMITTED, SMALL)) as uncommitted,
    ):
        # When transactions of several producers are written, committed and aborted
        def between() -> None:
            committed.take(0.0)
            uncommitted.take(0.0)

        interleave(writers, CODECS.index(codec), between)

        # Then each gets what it may read, to the last record, and nothing else
        committed.read_to(writers.expected(COMMITTED))
        uncommitted.read_to(writers.expected(UNCOMMITTED))

        # And when what is open is committed, the rest
        writers.end("a", committed=True)
        committed.read_to(writers.expected(COMMITTED))
        uncommitted.read_to(writers.expected(UNCOMMITTED))
    for read in READERS:
        read(broker.bootstrap, made, COMMITTED, SMALL, writers.expected(COMMITTED))


@pytest.mark.parametrize("seed", [7, 8])
def test_consumers_of_what_only_the_store_has(
    tmp_path_factory: pytest.TempPathFactory, topic: str, seed: int
) -> None:
    # Given transactions that ended, and an open one, when the broker was stopped
    data = tmp_path_factory.mktemp("restarted")
    broker = start_broker(data)
    create(broker.bootstrap, topic)
    writers = Writers(broker.bootstrap, topic, "lz4")
    interleave(writers, seed, lambda: None)
    writers.producers.clear()
    assert broker.stop() == 0

    # When it is started again
    broker = start_broker(data)

    # Then consumers of both kinds get the same as before, however much they fetch
    try:
        for isolation_level in (COMMITTED, UNCOMMITTED):
            expected = writers.expected(isolation_level)
            for fetch_bytes in (1, SMALL, 1 << 20):
                for read in READERS:
                    read(broker.bootstrap, topic, isolation_level, fetch_bytes, expected)
    finally:
        assert broker.stop() == 0
