"""What is known of all objects while an index is rebuilt: in a temporary file, not in memory."""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from protocol.control_batch import EndMarker
from protocol.ids import Partition
from storage.aborted_transaction import AbortedTransaction
from storage.gap_segment import is_gap

_TABLES: Final = """
CREATE TABLE segments (
    topic TEXT, partition INT, path TEXT, size INT, start_offset INT, end_offset INT,
    byte_start INT, byte_length INT, index_length INT, max_timestamp_ms INT, modified_ms INT,
    aborted TEXT
);
CREATE TABLE batches (
    topic TEXT, partition INT, leader_epoch INT, writer TEXT, sequence INT, path TEXT,
    byte_start INT, byte_length INT, record_count INT, run_offset INT,
    max_timestamp_ms INT, base_timestamp_ms INT, producer_id INT, producer_epoch INT,
    base_sequence INT, transactional INT, crc INT, is_told INT
);
CREATE TABLE places (
    topic TEXT, partition INT, writer TEXT, sequence INT, base_offsets TEXT,
    PRIMARY KEY (topic, partition, writer, sequence)
);
CREATE TABLE endings (
    topic TEXT, partition INT, end_offset INT, producer_id INT, producer_epoch INT,
    committed INT, timestamp_ms INT, PRIMARY KEY (topic, partition, end_offset)
);
CREATE TABLE writers (writer TEXT PRIMARY KEY, began_ms INT);
CREATE TABLE uploads (writer TEXT, sequence INT, path TEXT, PRIMARY KEY (writer, sequence));
CREATE TABLE gaps (path TEXT PRIMARY KEY, content BLOB);
CREATE TABLE objects (path TEXT PRIMARY KEY, size INT, object_id INT);
"""
_INDEXES: Final = """
CREATE INDEX segments_place ON segments (topic, partition, start_offset);
CREATE INDEX batches_place ON batches (topic, partition);
"""


class FoundSegment(NamedTuple):
    """A built segment, as its index tells; `modified_ms` is when it was stored."""

    path: str
    size: int
    start_offset: int
    end_offset: int
    byte_start: int
    byte_length: int
    index_length: int
    max_timestamp_ms: int
    modified_ms: int
    aborted: tuple[AbortedTransaction, ...]

    @property
    def is_gap(self) -> bool:
        """Whether it stands for what an earlier recovery did not find."""
        return is_gap(self.path)


class FoundBatch(NamedTuple):
    """A batch of an object of a writer.

    Attributes:
        writer: that uploaded the object, as its `sequence`-th.
        byte_start, byte_length: where it lies in the object.
        record_count: offsets that it takes.
        run_offset: that the writer expected for the first batch of its run; -1: it did not know.
        is_told: 1: `run_offset` is not what the writer expected, but what it was told afterwards.
    """

    leader_epoch: int
    writer: str
    sequence: int
    path: str
    byte_start: int
    byte_length: int
    record_count: int
    run_offset: int
    max_timestamp_ms: int
    base_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    transactional: int
    crc: int
    is_told: int = 0


class Scratch:
    """Sorted by partition, however objects come; `close` removes it."""

    def __init__(self) -> None:
        self._db = sqlite3.connect("")  # private; in memory only as long as it is small
        self._db.executescript(_TABLES)

    def add_segment(self, partition: Partition, found: FoundSegment) -> None:
        *fields, aborted = found
        text = json.dumps([[a.producer_id, a.first_offset, a.last_offset] for a in aborted])
        row = (partition.topic_id.hex, partition.index, *fields, text)
        self._db.execute(f"INSERT INTO segments VALUES ({_places(row)})", row)  # noqa: S608 (?, ?)
        self.add_object(found.path, found.size)

    def add_upload(self, writer: str, sequence: int, path: str, size: int, written_ms: int) -> bool:
        """Take note of an object of a writer; False if it is there under another path."""
        self.add_object(path, size)
        self._db.execute(
            "INSERT INTO writers VALUES (?, ?) "
            "ON CONFLICT (writer) DO UPDATE SET began_ms = min(began_ms, excluded.began_ms)",
            (writer, written_ms),
        )
        done = self._db.execute(
            "INSERT OR IGNORE INTO uploads VALUES (?, ?, ?)", (writer, sequence, path)
        )
        return done.rowcount == 1

    def add_batches(self, partition: Partition, batches: Iterable[FoundBatch]) -> None:
        place = (partition.topic_id.hex, partition.index)
        rows = [(*place, *batch) for batch in batches]
        if rows:
            statement = f"INSERT INTO batches VALUES ({_places(rows[0])})"  # noqa: S608 (?, ?)
            self._db.executemany(statement, rows)

    def add_places(
        self, partition: Partition, writer: str, sequence: int, base_offsets: Sequence[int]
    ) -> None:
        """Take note of what a writer tells of the partition's batches of one of its objects."""
        row = (partition.topic_id.hex, partition.index, writer, sequence, json.dumps(base_offsets))
        self._db.execute("INSERT OR IGNORE INTO places VALUES (?, ?, ?, ?, ?)", row)

    def add_ending(self, partition: Partition, offset: int, marker: EndMarker) -> None:
        """Take note of the end of a transaction, and of the offset of its marker."""
        place = (partition.topic_id.hex, partition.index, offset)
        said = (marker.producer_id, marker.producer_epoch, marker.committed, marker.timestamp_ms)
        statement = "INSERT OR IGNORE INTO endings VALUES (?, ?, ?, ?, ?, ?, ?)"
        self._db.execute(statement, (*place, *said))

    def add_gap(self, path: str, content: bytes) -> None:
        """Keep an object that is stored last."""
        self._db.execute("INSERT INTO gaps VALUES (?, ?)", (path, content))

    def gaps(self) -> Iterator[tuple[str, bytes]]:
        """Yield those objects."""
        yield from self._db.execute("SELECT path, content FROM gaps ORDER BY path")

    def settle(self) -> None:
        """Make it quick to read; nothing more is added."""
        self._db.executescript(_INDEXES)

    def partitions(self) -> list[Partition]:
        """Return all that something was found of, in key order."""
        found = self._db.execute(
            "SELECT topic, partition FROM segments UNION SELECT topic, partition FROM batches"
        )
        return sorted(Partition(UUID(hex=topic), partition) for topic, partition in found)

    def segments(self, partition: Partition) -> list[FoundSegment]:
        """Return the built segments of a partition by their start offsets."""
        found = self._db.execute(
            "SELECT path, size, start_offset, end_offset, byte_start, byte_length, index_length,"
            " max_timestamp_ms, modified_ms, aborted FROM segments"
            " WHERE topic = ? AND partition = ? ORDER BY start_offset, end_offset",
            (partition.topic_id.hex, partition.index),
        )
        return [FoundSegment._make((*fields, _aborted(text))) for *fields, text in found]

    def batches(self, partition: Partition) -> list[FoundBatch]:
        """Return the writers' batches of a partition by leader epoch and writer, in its order."""
        found = self._db.execute(
            "SELECT leader_epoch, writer, sequence, path, byte_start, byte_length, record_count,"
            " run_offset, max_timestamp_ms, base_timestamp_ms, producer_id, producer_epoch,"
            " base_sequence, transactional, crc, is_told FROM batches JOIN writers USING (writer)"
            " WHERE topic = ? AND partition = ?"
            " ORDER BY leader_epoch, began_ms, writer, sequence, byte_start",
            (partition.topic_id.hex, partition.index),
        )
        return [FoundBatch(*fields) for fields in found]

    def places(self, partition: Partition) -> dict[tuple[str, int], list[int]]:
        """Return what writers tell of their batches of a partition, by writer and object."""
        found = self._db.execute(
            "SELECT writer, sequence, base_offsets FROM places WHERE topic = ? AND partition = ?",
            (partition.topic_id.hex, partition.index),
        )
        return {(writer, sequence): json.loads(text) for writer, sequence, text in found}

    def endings(self, partition: Partition) -> dict[int, EndMarker]:
        """Return the markers that ended transactions in a partition by their offsets, ascending."""
        found = self._db.execute(
            "SELECT end_offset, producer_id, producer_epoch, committed, timestamp_ms FROM endings"
            " WHERE topic = ? AND partition = ? ORDER BY end_offset",
            (partition.topic_id.hex, partition.index),
        )
        return {
            offset: EndMarker(
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                committed=bool(committed),
                timestamp_ms=timestamp_ms,
            )
            for offset, producer_id, producer_epoch, committed, timestamp_ms in found
        }

    def objects(self, at_once: int) -> Iterator[list[tuple[str, int]]]:
        """Yield paths and sizes of all objects that were read, some at a time."""
        last = ""
        statement = "SELECT path, size FROM objects WHERE path > ? ORDER BY path LIMIT ?"
        while page := self._db.execute(statement, (last, at_once)).fetchall():
            yield page
            last = page[-1][0]

    def set_object_ids(self, ids: Iterable[tuple[int, str]]) -> None:
        """Keep the ids that the index gave to paths."""
        self._db.executemany("UPDATE objects SET object_id = ? WHERE path = ?", list(ids))

    def object_id(self, path: str) -> int:
        """Return the id that the index gave to a path."""
        statement = "SELECT object_id FROM objects WHERE path = ?"
        (object_id,) = self._db.execute(statement, (path,)).fetchone()
        return int(object_id)

    def close(self) -> None:
        self._db.close()

    def add_object(self, path: str, size: int) -> None:
        """Take note of an object of the store."""
        self._db.execute("INSERT OR IGNORE INTO objects VALUES (?, ?, NULL)", (path, size))


def _aborted(text: str) -> tuple[AbortedTransaction, ...]:
    return tuple(
        AbortedTransaction(producer_id=producer_id, first_offset=first, last_offset=last)
        for producer_id, first, last in json.loads(text)
    )


def _places(row: Iterable[object]) -> str:
    return ", ".join("?" for _ in row)
