"""What a stock consumer of committed records reads while trials run, and what is wrong with it."""

import asyncio
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from tests.support.wire import WireClient, request_entities
from tests.transactions.delayed_end import Outcome, Report, Transaction, counts

LIST_OFFSETS: Final = 2
LATEST: Final = -1
POLL_S: Final = 0.1
PATIENCE_S: Final = 120.0


class Anomaly(StrEnum):
    """What no reader of committed records may see."""

    LOST_WRITE = "lost write"
    ABORTED_READ = "aborted read"
    TORN = "torn transaction"
    EARLY_READ = "read before its commit"
    DUPLICATE = "duplicate"


class Read(NamedTuple):
    """A record, and when the reader had it (monotonic time)."""

    value: str
    read_s: float


class CommittedReader:
    """A consumer of all partitions of a topic from the beginning, in a thread of its own.

    Attributes:
        reads: so far.
        positions: for each partition, where its end was reached last.
    """

    def __init__(self, bootstrap: str, topic: str, partition_count: int) -> None:
        self.reads: list[Read] = []
        self.positions = dict.fromkeys(range(partition_count), -1)
        self._stopping = False
        self._failure: KafkaError | None = None
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "assigned-by-hand",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 50,
            }
        )
        self._consumer.assign(
            [TopicPartition(topic, number, OFFSET_BEGINNING) for number in self.positions]
        )
        self._thread = threading.Thread(target=self._run, name="reader")

    @classmethod
    @contextmanager
    def running(
        cls, bootstrap: str, topic: str, partition_count: int
    ) -> Iterator["CommittedReader"]:
        reader = cls(bootstrap, topic, partition_count)
        reader._thread.start()
        try:
            yield reader
        finally:
            reader._stopping = True
            reader._thread.join()
            reader._consumer.close()

    async def reached(self, ends: Sequence[int]) -> None:
        """Wait until each partition was read to its end."""
        async with asyncio.timeout(PATIENCE_S):
            while any(self.positions[number] < end for number, end in enumerate(ends)):
                if self._failure is not None:
                    raise KafkaException(self._failure)
                await asyncio.sleep(POLL_S)

    def _run(self) -> None:
        while not self._stopping and self._failure is None:
            for message in self._consumer.consume(1_000, timeout=POLL_S):
                self._take(message)

    def _take(self, message: Message) -> None:
        partition, offset, value = message.partition(), message.offset(), message.value()
        error = message.error()
        if error is None:
            assert isinstance(value, bytes)
            self.reads.append(Read(value.decode(), time.monotonic()))
        elif error.code() == KafkaError._PARTITION_EOF:
            assert partition is not None
            assert offset is not None
            self.positions[partition] = offset
        else:
            self._failure = error


async def stable_ends(bootstrap: str, topic: str, partition_count: int) -> list[int]:
    """Return where each partition ends, once no transaction is open in any of them."""
    async with asyncio.timeout(PATIENCE_S), await WireClient.connect(bootstrap) as client:
        while True:
            high_watermarks, stable = [
                await _ends(client, topic, partition_count, isolation_level=level)
                for level in (0, 1)
            ]
            if high_watermarks == stable:
                return stable
            await asyncio.sleep(POLL_S)


async def _ends(
    client: WireClient, topic: str, partition_count: int, *, isolation_level: int
) -> list[int]:
    module = request_entities(LIST_OFFSETS, 7)
    partitions = tuple(
        module.ListOffsetsPartition(
            partition_index=number, current_leader_epoch=-1, timestamp=LATEST
        )
        for number in range(partition_count)
    )
    request = module.ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation_level,
        topics=(module.ListOffsetsTopic(name=topic, partitions=partitions),),
    )
    answer: Any = (await client.ask(request)).topics[0].partitions
    assert all(one.error_code == 0 for one in answer), answer
    return [one.offset for one in sorted(answer, key=lambda one: one.partition_index)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What is wrong.

    Attributes:
        trials: how many there were.
        anomalous: how many of them had an anomaly.
        anomalies: how many transactions had which.
        examples: some of their values.
    """

    trials: int
    anomalous: int
    anomalies: Counter[str]
    examples: Sequence[str]

    def __str__(self) -> str:
        share = self.anomalous / max(self.trials, 1)
        found = counts(self.anomalies)
        return f"{self.trials} trials, {self.anomalous} with an anomaly ({share:.1%}): {found}"


def judge(report: Report, reads: Sequence[Read]) -> Judgement:
    """Compare what was read with what clients were told."""
    times: dict[str, list[float]] = defaultdict(list)
    for read in reads:
        times[read.value].append(read.read_s)
    anomalies: Counter[str] = Counter()
    examples: list[str] = []
    anomalous = 0
    for trial in report.transactions:
        found = [
            f"{transaction.values[0]}: {anomaly}"
            for transaction in trial
            for anomaly in _anomalies(transaction, times)
        ]
        anomalies.update(one.partition(": ")[2] for one in found)
        examples += found
        anomalous += bool(found)
    return Judgement(
        trials=len(report.transactions),
        anomalous=anomalous,
        anomalies=anomalies,
        examples=examples[:10],
    )


def _anomalies(transaction: Transaction, times: dict[str, list[float]]) -> list[Anomaly]:
    seen = [times.get(value, []) for value in transaction.values]
    found = []
    if transaction.outcome is Outcome.COMMITTED and not all(seen):
        found.append(Anomaly.LOST_WRITE)
    if transaction.outcome is Outcome.ABORTED and any(seen):
        found.append(Anomaly.ABORTED_READ)
    if transaction.outcome is Outcome.UNKNOWN and any(seen) and not all(seen):
        found.append(Anomaly.TORN)
    if any(read_s < transaction.end_s for read in seen for read_s in read):
        found.append(Anomaly.EARLY_READ)
    if any(len(read) > 1 for read in seen):
        found.append(Anomaly.DUPLICATE)
    return found
