"""Stock clients on logs that were built into segments and compacted: what is left, and the gaps."""

import random
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import pytest

from tests.clients.confluent import Confluent
from tests.clients.java_tools import java_tools
from tests.clients.kcat import kcat
from tests.clients.log_reader import LogReader
from tests.clients.long_log_readers import UNCOMMITTED, LongLogReader, read_by_java, read_by_kcat
from tests.clients.long_logs import SEGMENT_BYTES, LongLogs, Written, latest_of
from tests.clients.records import ConsumedRecord
from tests.clients.spark_session import Spark, records_of
from tests.clients.stored_batches import CODECS, stored_batches

COMPACT: Final = {"cleanup.policy": "compact"}
FORGETS, REMEMBERS, EMPTIED = "forgets-tombstones", "remembers-tombstones", "emptied"
SHARED_KEYS, OWN_KEYS = 60, 20
VALUE_BYTES: Final = 150
START_MS: Final = 1_700_000_000_000
STEP_MS: Final = 1_000
EMPTY_BATCH_BYTES: Final = 61


@dataclass(frozen=True, slots=True)
class Logs:
    """Topics that have come to rest, and what is left of each.

    Attributes:
        left: records by topic, in offset order.
        ends: high watermarks by topic.
    """

    broker: LongLogs
    left: dict[str, list[ConsumedRecord]]
    ends: dict[str, int]

    def from_offset(self, topic: str, offset: int) -> list[ConsumedRecord]:
        return [record for record in self.left[topic] if record.offset >= offset]

    def gaps(self, topic: str) -> list[int]:
        """Return the first and the last offset of every gap."""
        offsets = [-1, *(record.offset for record in self.left[topic])]
        gaps = [(a + 1, b - 1) for a, b in pairwise(offsets) if a + 1 < b]
        return [edge for gap in gaps for edge in gap]


class Writer:
    """Writes a topic with all codecs in turn; each write is at least one batch."""

    def __init__(self, logs: LongLogs, topic: str) -> None:
        self.log: dict[int, ConsumedRecord] = {}
        self.by_codec = {
            codec: Written(logs.bootstrap, topic, {"compression.type": codec}, self.log)
            for codec in CODECS
        }
        self._random = random.Random(topic)
        self._time_ms = START_MS

    def write(self, codec: str, *keys: str, tombstones: bool = False) -> None:
        pairs = [(key.encode(), None if tombstones else self._value()) for key in keys]
        self.by_codec[codec].write(*pairs, timestamp_ms=self._time_ms)
        self._time_ms += STEP_MS

    def write_with_all_codecs(self) -> None:
        shared = [f"shared-{number}" for number in range(SHARED_KEYS)]
        for codec in CODECS:
            own = [f"{codec}-{number}" for number in range(OWN_KEYS)]
            for _ in range(3):
                self.write(codec, *shared)  # of these no batch is left in the end
            self.write(codec, *own[:10], *shared[:30], *own[10:], *shared[30:])
            self.write(codec, *own[::4], tombstones=True)

    def _value(self) -> bytes:
        return self._random.randbytes(VALUE_BYTES).hex().encode()


@pytest.fixture(scope="module")
def logs(long_logs: LongLogs) -> Logs:
    for topic, retention in ((FORGETS, "1"), (REMEMBERS, "86400000"), (EMPTIED, "1")):
        long_logs.create(topic, {**COMPACT, "delete.retention.ms": retention})
    writers = {topic: Writer(long_logs, topic) for topic in (FORGETS, REMEMBERS)}
    for writer in writers.values():
        writer.write_with_all_codecs()
    emptied = Written(long_logs.bootstrap, EMPTIED)
    keys = [b"%d" % number for number in range(500)]
    emptied.write(*((key, random.Random(key).randbytes(500)) for key in keys))
    emptied.write(*((key, None) for key in keys))
    for topic in (FORGETS, REMEMBERS, EMPTIED):
        long_logs.await_compacted(topic)

    # What is written now lets compaction look at tombstones again whose time is over.
    for writer in writers.values():
        writer.write("lz4", *(f"shared-{number}" for number in range(0, SHARED_KEYS, 2)))
    large = random.Random(0).randbytes(SEGMENT_BYTES // 2).hex().encode()
    emptied.write((b"large", large))
    for topic in (FORGETS, REMEMBERS, EMPTIED):
        long_logs.await_compacted(topic)
    long_logs.restart()

    written = {topic: writer.log for topic, writer in writers.items()} | {EMPTIED: emptied.log}
    left = {topic: latest_of(log) for topic, log in written.items()}
    for topic in (FORGETS, EMPTIED):
        left[topic] = [record for record in left[topic] if record.value is not None]
    return Logs(long_logs, left, {topic: max(log) + 1 for topic, log in written.items()})


@pytest.mark.parametrize("topic", [FORGETS, REMEMBERS, EMPTIED])
def test_every_key_has_its_latest_value(read: LongLogReader, logs: Logs, topic: str) -> None:
    reading = read(topic, UNCOMMITTED, 0)

    assert reading.records == logs.left[topic]
    assert reading.position in (logs.ends[topic], None)


def test_a_reader_that_begins_in_a_gap_gets_the_next_record(
    read: LongLogReader, logs: Logs
) -> None:
    for topic, places in ((REMEMBERS, 5), (EMPTIED, 2)):
        gaps = logs.gaps(topic)
        for offset in random.Random(topic).sample(gaps, places):
            reading = read(topic, UNCOMMITTED, offset)

            assert reading.records == logs.from_offset(topic, offset)
            assert reading.position in (logs.ends[topic], None)


def test_the_console_consumer_reads_what_is_left(logs: Logs) -> None:
    tools = java_tools(logs.broker.bootstrap)

    records = tools.consume(REMEMBERS, {0: len(logs.left[REMEMBERS])})

    assert records == logs.left[REMEMBERS]


def test_what_is_left_of_the_segments(logs: Logs) -> None:
    # Batches of all codecs are, and they take less than what was written
    leader = Confluent(bootstrap=logs.broker.bootstrap).leader(REMEMBERS, 0)
    batches = stored_batches(leader, REMEMBERS, 0)
    assert {batch.codec for batch in batches if batch.record_count} == set(CODECS)
    assert sum(batch.record_count for batch in batches) == len(logs.left[REMEMBERS])
    sizes = [segment.length for segment in logs.broker.segments(REMEMBERS)]
    assert max(sizes) <= SEGMENT_BYTES

    # And where nothing is, one batch without records covers the segment
    empty, rest = logs.broker.segments(EMPTIED)
    assert empty.length == EMPTY_BATCH_BYTES
    assert (empty.start_offset, empty.end_offset + 1) == (0, rest.start_offset)


def test_offsets_by_time(logs: Logs, java_on_long_logs: LogReader, spark: Spark) -> None:
    left = logs.left[REMEMBERS]
    bootstrap = logs.broker.bootstrap
    confluent, program = Confluent(bootstrap=bootstrap), kcat(bootstrap)
    times = [record.timestamp_ms for record in left]
    removed = next(time for time in range(times[0], times[-1]) if time not in times)
    for time_ms in (0, times[0], removed, times[len(times) // 2], times[-1]):
        expected = [record for record in left if record.timestamp_ms >= time_ms]

        offset = confluent.offset_for_time(REMEMBERS, 0, time_ms)
        by_kcat = read_by_kcat(program, REMEMBERS, UNCOMMITTED, f"s@{time_ms}")
        by_java = read_by_java(java_on_long_logs, REMEMBERS, UNCOMMITTED, f"@{time_ms}")

        assert offset == expected[0].offset
        assert by_kcat.records == expected
        assert by_java.records == expected
    by_spark = replace(spark, bootstrap=bootstrap).read(REMEMBERS, startingTimestamp=str(removed))
    assert records_of(by_spark) == [one for one in left if one.timestamp_ms >= removed]
    assert confluent.offset_for_time(REMEMBERS, 0, times[-1] + 1) == -1
