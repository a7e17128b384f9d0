"""What one attempt of a task does: rows in, objects in the store out, nothing in the log.

Rows of one task that go to the same partition keep their order; so do tasks, by their numbers,
since the driver commits objects in that order. A topic is looked up when an attempt first meets it:
should its partitions grow while a job runs, records of a key may go to two of them, as with any
producer.
"""

import os
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from uuid import UUID

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from spark.log_location import LogLocation
from spark.sinks.direct_chunks import arrange
from spark.sinks.direct_columns import Columns
from spark.sinks.direct_objects import Seal, seal
from spark.sinks.direct_options import SinkOptions
from spark.sinks.direct_topics import TopicNotWritable, TopicRules
from spark.sinks.direct_upload import Uploads
from storage.errors import StorageError
from storage.sink_commits import BatchOvertaken, SinkObject
from storage.wall_clock import now_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkTask:
    """What every attempt of every task of a write has; picklable."""

    location: LogLocation
    options: SinkOptions
    columns: Columns


@dataclass(frozen=True, kw_only=True)
class SinkMessage(WriterCommitMessage):
    """What an attempt has stored; Spark hands that of one attempt of each task to the driver.

    Attributes:
        sink_id, batch_id: whose it is.
        objects: in the order of the rows; empty if the task had none.
        topic_names: of the topics in them.
    """

    sink_id: str
    batch_id: int
    objects: tuple[SinkObject, ...]
    topic_names: Mapping[UUID, str]


def run_task(
    task: SinkTask, batches: Iterator[pa.RecordBatch], sink_id: str, batch_id: int
) -> SinkMessage:
    """Store the rows of a task.

    Args:
        task: what to do.
        batches: its rows.
        sink_id: of the query, or the write.
        batch_id: if that batch is in the log already, nothing is stored.

    Raises:
        UnfitRows, TopicNotWritable: rows cannot be written.
        BatchOvertaken: a later batch is in the log.
        MetadataUnavailable, ObjectStoreUnavailable: no answer for a minute.
        MetadataWentBack: brokers have marked the database as one that was set back.
        WrongStore: the store is not that of the cluster.
    """
    try:
        return _run(task, batches, sink_id, batch_id)
    except (ValueError, StorageError):
        # A worker that ends with rows unread resets its connection, and what it says gets lost.
        deque(batches, maxlen=0)
        raise


def _run(
    task: SinkTask, batches: Iterator[pa.RecordBatch], sink_id: str, batch_id: int
) -> SinkMessage:
    with Uploads(task.location, task.options.commit_within) as uploads:
        last = uploads.last_batch(sink_id)
        if last > batch_id:
            raise BatchOvertaken(f"batch {batch_id} of {sink_id} comes after batch {last}")
        writing = _Writing(task, uploads)
        for chunk in chunks(batches, task.options.object_bytes):
            if last < batch_id:  # else its rows are read all the same: Spark sends them
                writing.write(chunk)
        return SinkMessage(
            sink_id=sink_id,
            batch_id=batch_id,
            objects=tuple(uploads.finish()),
            topic_names=writing.topic_names(),
        )


def chunks(batches: Iterator[pa.RecordBatch], most_bytes: int) -> Iterator[pa.RecordBatch]:
    """Yield rows, in order, in batches of about `most_bytes`; the last one may be smaller."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        for piece in _pieces(batch, most_bytes):
            if size + piece.nbytes > most_bytes and held:
                yield pa.concat_batches(held)
                held, size = [], 0
            held.append(piece)
            size += piece.nbytes
    if held:
        yield pa.concat_batches(held)


def _pieces(batch: pa.RecordBatch, most_bytes: int) -> Iterator[pa.RecordBatch]:
    """Cut a batch into pieces of about as many rows each, as many as it takes."""
    if batch.num_rows == 0:
        return
    count = min(-(-batch.nbytes // most_bytes), batch.num_rows) or 1
    rows = -(-batch.num_rows // count)
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


class _Writing:
    def __init__(self, task: SinkTask, uploads: Uploads) -> None:
        self._task = task
        self._uploads = uploads
        self._writer_id = UUID(bytes=os.urandom(16), version=4)
        self._first = int.from_bytes(os.urandom(2))
        self._sequence = 0
        self._rules: dict[str, TopicRules] = {}

    def write(self, chunk: pa.RecordBatch) -> None:
        names, _ = self._task.columns.topics(chunk)
        self._look_up([name for name in names if name not in self._rules])
        begun_ms = now_ms()
        arranged = arrange(
            chunk, self._task.columns, self._rules, now_ms=begun_ms, first=self._first
        )
        about = Seal(
            writer_id=self._writer_id,
            sequence=self._sequence,
            now_ms=begun_ms,
            batch_bytes=self._task.options.batch_bytes,
        )
        self._sequence += 1
        self._first += 1
        self._uploads.submit(seal(arranged, about))

    def topic_names(self) -> dict[UUID, str]:
        return {rules.topic.topic_id: name for name, rules in self._rules.items()}

    def _look_up(self, names: list[str]) -> None:
        if not names:
            return
        found = self._uploads.topics(names)
        for name in names:
            if name not in found:
                raise TopicNotWritable(
                    f"topic {name} does not exist: streamctl topic create --name {name}"
                )
            self._rules[name] = TopicRules.of(found[name], self._task.options.codec)
