"""Topics that are kept for years: one that holds a registry's state, and recompressed ones."""

import json
from collections.abc import Callable
from typing import Final

import pytest

from tests.clients.confluent import Confluent
from tests.clients.flights import Flight
from tests.clients.log_reader import LogReader
from tests.clients.long_log_readers import (
    UNCOMMITTED,
    LongLogReader,
    Reading,
    read_by_aiokafka,
    read_by_java,
)
from tests.clients.long_logs import LongLogs, Written, latest_of
from tests.clients.records import SentRecord, check_dense_offsets, check_same_flights
from tests.clients.stored_batches import CODECS, stored_batches

SCHEMAS: Final = "_schemas"
SUBJECTS, VERSIONS = 30, 6
NOOP: Final = b'{"keytype":"NOOP","magic":0}'
SUBSET: Final = 2_000
COMPRESSED: Final = [codec for codec in CODECS if codec != "none"]


class Registry:
    """What a schema registry does with its topic.

    It writes with one producer; when it starts, it writes a record without meaning and reads the
    topic from the beginning until it has come to that one.
    """

    def __init__(self, written: Written, read: Callable[[], Reading]) -> None:
        self._written = written
        self._read = read

    def register(self, subjects: range, version: int) -> None:
        pairs: list[tuple[bytes, bytes | None]] = []
        for subject in subjects:
            schema = {"type": "record", "name": f"R{subject}", "doc": "x" * 100 * version}
            value = {"subject": f"s-{subject}", "version": version, "schema": json.dumps(schema)}
            pairs.append((_key(subject, version), json.dumps(value).encode()))
        self._written.write(*pairs)

    def delete(self, subjects: range, version: int) -> None:
        self._written.write(*((_key(subject, version), None) for subject in subjects))

    def start(self) -> dict[bytes | None, bytes | None]:
        """Return its state: what it has read, by key."""
        (noop,) = self._written.write((NOOP, b""))
        reading = self._read()
        assert reading.records[-1].offset == noop
        assert reading.position == noop + 1
        latest = {one.key: one.value for one in reading.records}
        return {key: value for key, value in latest.items() if value}

    def state(self) -> dict[bytes | None, bytes | None]:
        return {one.key: one.value for one in latest_of(self._written.log) if one.value}


def _key(subject: int, version: int) -> bytes:
    key = {"keytype": "SCHEMA", "subject": f"s-{subject}", "version": version, "magic": 1}
    return json.dumps(key, separators=(",", ":")).encode()


def test_a_registry_reads_its_state_at_each_start(
    long_logs: LongLogs, java_on_long_logs: LogReader
) -> None:
    # Given a registry that keeps its schemas in a compacted topic
    configs = {"cleanup.policy": "compact", "delete.retention.ms": "1"}
    long_logs.create(SCHEMAS, configs)
    written = Written(long_logs.bootstrap, SCHEMAS)
    readers: list[Callable[[], Reading]] = [
        lambda: read_by_java(java_on_long_logs, SCHEMAS, UNCOMMITTED, "0"),
        lambda: read_by_aiokafka(long_logs.bootstrap, SCHEMAS, UNCOMMITTED, 0),
    ]
    for turn, read in enumerate(readers):
        registry = Registry(written, read)
        assert registry.start() == registry.state()

        # When schemas come, are written again and deleted, and the topic is compacted
        for version in range(1, VERSIONS):
            registry.register(range(turn, SUBJECTS), version)
        registry.delete(range(turn, SUBJECTS, 3), 2)
        long_logs.await_compacted(SCHEMAS)

        # Then it has the same state at the next start, whether the broker has it in memory or not
        assert registry.start() == registry.state()
        long_logs.restart()
        assert registry.start() == registry.state()
    long_logs.await_compacted(SCHEMAS)
    long_logs.restart()
    keys = [record.key for record in readers[0]().records]
    assert len(keys) == len(set(keys))


@pytest.fixture(scope="module")
def recompressed(long_logs: LongLogs, flights: list[Flight]) -> dict[str, str]:
    """Return topics by codec: each has the same flights, which came uncompressed."""
    confluent = Confluent(bootstrap=long_logs.bootstrap)
    topics = {codec: f"recompressed-{codec}" for codec in CODECS}
    records = [SentRecord(key=one.key, value=one.value) for one in flights[:SUBSET]]
    for codec, topic in topics.items():
        name = "uncompressed" if codec == "none" else codec
        long_logs.create(topic, {"compression.type": name, "retention.ms": "-1"})
        confluent.produce(topic, records)
    for topic in topics.values():
        long_logs.await_built(topic)
    long_logs.restart()
    return topics


@pytest.mark.parametrize("codec", COMPRESSED)
def test_what_the_broker_has_compressed_is_read(
    read: LongLogReader, recompressed: dict[str, str], codec: str, flights: list[Flight]
) -> None:
    reading = read(recompressed[codec], UNCOMMITTED, 0)

    check_same_flights(reading.records, flights[:SUBSET])
    check_dense_offsets(reading.records)
    assert reading.position in (SUBSET, None)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_what_the_broker_has_compressed_is_smaller(
    long_logs: LongLogs, recompressed: dict[str, str], codec: str
) -> None:
    topic = recompressed[codec]
    leader = Confluent(bootstrap=long_logs.bootstrap).leader(topic, 0)

    assert {batch.codec for batch in stored_batches(leader, topic, 0)} == {codec}
    sizes = {
        name: sum(segment.length for segment in long_logs.segments(recompressed[name]))
        for name in (codec, "none")
    }
    assert sizes[codec] < 0.6 * sizes["none"]
