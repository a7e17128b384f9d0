"""Records that are lost, damaged or out of reach: what an operator sees of them."""

import json
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from broker.read_failures import AGAIN_S, MOST_LINES, ReadFailures
from protocol.errors import CorruptBatch
from protocol.ids import Partition
from protocol.records import Record, build_batch
from storage.errors import (
    CorruptObject,
    MetadataUnavailable,
    ObjectMissing,
    ObjectStoreUnavailable,
    OffsetOutOfRange,
)
from storage.partition_log import PartitionLog
from tests.support.broker import start_broker
from tests.support.tls import metric
from tests.support.wal_objects import wal_with_batches
from tests.support.wire import WireClient

TOPIC = "unreadable"
TOLD = (
    (12, ErrorCode.kafka_storage_error),
    (6, ErrorCode.kafka_storage_error),
    (5, ErrorCode.not_leader_or_follower),  # the other one came with v6
)
"""By version of Fetch."""


class Bench:
    """What is told of reads that fail, at a time that the test says."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._registry = CollectorRegistry()
        self._failures = ReadFailures(self._registry, lambda _: TOPIC, lambda: self.now_s)

    def fail(self, error: Exception, index: int = 0) -> list[str]:
        """Let a read of a partition fail; return the levels of the lines that tell of it."""
        with capture_logs() as lines:
            self._failures.note(PartitionLog(Partition(UUID(int=1), index), set()), error, offset=7)
        return [line["log_level"] for line in lines]

    def count(self, reason: str) -> float | None:
        name = "streamhouse_unreadable_reads_total"
        return self._registry.get_sample_value(name, {"reason": reason})


def delete(path: Path) -> None:
    path.unlink()


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[70] ^= 0xFF
    path.write_bytes(content)


@pytest.mark.parametrize(("spoil", "reason"), [(delete, "missing"), (damage, "damaged")])
async def test_what_a_client_cannot_be_given_is_told_once_and_counted(
    tmp_path: Path, spoil: Callable[[Path], None], reason: str
) -> None:
    # Given a record that its broker has not in memory, and whose object is spoilt
    written = start_broker(tmp_path)
    async with await WireClient.connect(written.bootstrap) as wire:
        await wire.create_topic(TOPIC)
        await wire.produce(TOPIC, build_batch([Record(offset_delta=0, value=b"x" * 100)]))
    written.stop()
    (path,) = wal_with_batches(tmp_path)
    spoil(path)

    # When a client asks for it again and again
    broker = start_broker(tmp_path)
    try:
        async with await WireClient.connect(broker.bootstrap) as wire:
            for version, code in TOLD:
                answer = await wire.fetch(TOPIC, 0, version=version)
                assert answer.error_code == code

        # Then each time is counted, and one line of the log tells what cannot be read and why
        count = metric(broker, "streamhouse_unreadable_reads_total", reason=reason)
    finally:
        broker.stop()
    assert count == len(TOLD)
    lines = [json.loads(one) for one in broker.log.read_text().splitlines() if one[:1] == "{"]
    (line,) = (one for one in lines if one["event"] == "stored records cannot be read")
    assert line["level"] == "error"
    assert (line["topic"], line["partition"], line["offset"]) == (TOPIC, 0, 0)
    assert path.name in line["reason"]


def test_a_partition_is_told_of_again_after_a_while() -> None:
    bench = Bench()
    assert bench.fail(ObjectMissing("gone")) == ["error"]
    bench.now_s += AGAIN_S - 1
    assert bench.fail(ObjectMissing("gone")) == []
    assert bench.fail(CorruptObject("spoilt"), index=1) == ["error"]
    bench.now_s += 1
    assert bench.fail(CorruptBatch("spoilt")) == ["error"]
    assert bench.fail(CorruptObject("spoilt"), index=1) == []
    assert (bench.count("missing"), bench.count("damaged")) == (2, 3)


def test_a_store_that_is_away_is_a_warning_for_all_partitions() -> None:
    bench = Bench()
    told = [bench.fail(ObjectStoreUnavailable("away"), index) for index in range(5)]
    assert told == [["warning"], [], [], [], []]
    assert bench.fail(ObjectMissing("gone")) == ["error"]
    assert (bench.count("unavailable"), bench.count("missing")) == (5, 1)


def test_many_partitions_flood_neither_memory_nor_log() -> None:
    bench = Bench()
    for window in range(3):
        bench.now_s = window * AGAIN_S
        told = [bench.fail(ObjectMissing("gone"), index) for index in range(3 * MOST_LINES)]
        assert told.count(["error"]) == MOST_LINES
    assert bench.count("missing") == 9 * MOST_LINES


@pytest.mark.parametrize("error", [OffsetOutOfRange("1"), MetadataUnavailable("away")])
def test_what_is_not_the_stores_is_told_elsewhere(error: Exception) -> None:
    bench = Bench()
    assert bench.fail(error) == []
    assert {bench.count(one) for one in ("missing", "damaged", "unavailable")} == {0}
