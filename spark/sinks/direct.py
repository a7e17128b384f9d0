"""The direct sink: topics written without brokers, exactly once.

    executors   rows -> record batches -> objects in the store, under paths that are reserved before
    driver      one transaction of Postgres makes all of them part of the log, or none

A streaming query is known by its id, which Spark keeps in the checkpoint (one that is begun anew
under the same path has another), and by the number of the micro-batch. Postgres remembers the last
number of each id in the transaction that commits it. So, when something dies:
- an attempt of a task, or one of two that run at a time: its objects are in no message that Spark
  hands to the driver. No row of the log names them; they are given up, and taken away.
- the driver before the commit: nothing of the batch is in the log. Spark does it again.
- Postgres in the commit, or its answer is lost: the same call is repeated, for ten minutes. If it
  still is not known, the query fails; the uploads are given up, which a commit that comes late
  respects, and Spark does the batch again: either way it is there once.
- the driver after the commit, before Spark has noted it: Spark does the batch again, perhaps with
  other rows in other objects. Its number is known: tasks store nothing, the commit changes nothing.
- a second driver on the same checkpoint: whoever commits a batch first has done it; for a batch
  before the last one the other hears BatchOvertaken, and ends.
- a copy of a checkpoint: it has the id of the first, so two queries that go on from it are taken
  for one, and what the slower one writes is taken for repeated. Begin a checkpoint of its own.
- brokers: they are not asked, and find what was committed as they find each other's commits.

A batch write has the option idempotencyKey for the same; without, it is written as often as it is
asked for, once each time. Options: spark/sinks/direct_options.py, columns: direct_columns.py. Who
can reach Postgres and the store may write: ACLs are rules of brokers.

Output mode `complete` appends the whole result each time, as Spark's Kafka sink does; a log has
nothing to overwrite, so `mode("overwrite")` is refused and `mode("append")` has to be said.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, TypeAlias
from uuid import UUID, uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import datasource
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from spark.log_location import LogLocation
from spark.sinks.direct_columns import Columns
from spark.sinks.direct_options import COMMIT_WITHIN, SinkOptions
from spark.sinks.direct_task import SinkMessage, SinkTask, run_task
from spark.sinks.direct_upload import patiently
from storage.errors import CommitOutcomeUnknown, UnknownPartition
from storage.sink_commits import BatchOvertaken, SinkBatch, SinkCommits, SinkVerdict

COMMIT_PATIENCE_S: Final = 600.0
KEYS_REMEMBERED: Final = timedelta(days=400)
WRITES_REMEMBERED: Final = timedelta(days=1)
"""A write without a key repeats its own commit for ten minutes, and is never asked for again."""

_QUERY_ID: Final = "sql.streaming.queryId"
_BATCH_ID: Final = "streaming.sql.batchId"

# Spark 4.0 gives Arrow batches to whatever is a DataSourceArrowWriter, also where it streams; later
# versions have a class of their own for that.
_StreamBase: Any = getattr(datasource, "DataSourceStreamArrowWriter", None) or type(
    "_StreamBase", (DataSourceStreamWriter, DataSourceArrowWriter), {}
)


Messages: TypeAlias = list[WriterCommitMessage | None]


class BatchNotCommitted(RuntimeError):
    """Nothing of a batch is in the log, for a reason that somebody has to mend."""


class DirectWriter(DataSourceArrowWriter):
    """One batch write; picklable, made where it is planned."""

    def __init__(
        self, options: Mapping[str, str], schema: StructType, *, overwrite: bool = False
    ) -> None:
        """Read options and columns.

        Raises:
            ValueError: one of them cannot be.
        """
        if overwrite:
            raise ValueError('a topic cannot be overwritten: write with mode("append")')
        self._task = make_task(options, schema)
        key = self._task.options.key
        self._sink_id = f"write:{uuid4()}" if key is None else keyed_sink(key)
        self._remembered = WRITES_REMEMBERED if key is None else KEYS_REMEMBERED

    def write(self, iterator: Iterator[pa.RecordBatch]) -> SinkMessage:
        """Store the rows of one task; see `run_task`."""
        return run_task(self._task, iterator, self._sink_id, self._task.options.version)

    def commit(self, messages: Messages) -> None:
        """Make all of it part of the log; see `commit_messages`."""
        commit_messages(self._task.location, messages, self._remembered)

    def abort(self, messages: Messages) -> None:
        """Give up what was stored, unless it was committed."""
        abandon_messages(self._task.location, messages)


class DirectStreamWriter(_StreamBase):  # type: ignore[misc]  # its base depends on the version
    """The micro-batches of one streaming query; picklable."""

    def __init__(
        self, options: Mapping[str, str], schema: StructType, *, overwrite: bool = False
    ) -> None:
        """Read options and columns; `overwrite` is the output mode `complete`.

        Raises:
            ValueError: one of them cannot be.
        """
        self._task = make_task(options, schema)
        if self._task.options.key is not None:
            raise ValueError("a streaming query is known by its checkpoint: no idempotencyKey")

    def write(self, iterator: Iterator[pa.RecordBatch]) -> SinkMessage:
        """Store the rows of one task; see `run_task`."""
        query_id, batch_id = _this_batch()
        return run_task(self._task, iterator, f"query:{query_id}", batch_id)

    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803
        """Make a micro-batch part of the log; see `commit_messages`."""
        assert all(message.batch_id == batchId for message in _stored(messages))
        commit_messages(self._task.location, messages, None)

    def abort(self, messages: Messages, batchId: int) -> None:  # noqa: N803
        """Give up what was stored, unless it was committed."""
        abandon_messages(self._task.location, messages)


def keyed_sink(key: str) -> str:
    """Return the id of the sink of batch writes with an idempotencyKey."""
    return f"key:{key}"


def make_task(options: Mapping[str, str], schema: StructType) -> SinkTask:
    """Return what all tasks of a write have.

    Raises:
        ValueError: an option or a column cannot be.
    """
    own = SinkOptions.of(options)
    columns = Columns.of(schema, own.topic)
    return SinkTask(location=LogLocation.of(options), options=own, columns=columns)


def commit_messages(
    location: LogLocation, messages: Messages, remembered: timedelta | None
) -> None:
    """Commit what tasks have stored, in the order of the tasks; nothing if they had no rows.

    Raises:
        BatchNotCommitted: uploads were given up, a topic is gone, or a later batch is there.
        MetadataUnavailable: no answer for ten minutes; whether it is committed is not known.
    """
    stored = _stored(messages)
    if not stored:
        return
    (sink_id,) = {message.sink_id for message in stored}
    batch = SinkBatch(
        sink_id=sink_id,
        batch_id=stored[0].batch_id,
        remembered=remembered,
        objects=[each for message in stored for each in message.objects],
    )
    try:
        asyncio.run(_commit(location, batch))
    except BatchOvertaken as error:
        raise BatchNotCommitted(
            f"{error}: another driver runs this query, or its checkpoint has begun anew from"
            " older batches. Stop the other, or begin a new checkpoint"
        ) from error
    except CommitOutcomeUnknown as error:
        raise BatchNotCommitted(
            f"nothing was written, do it again: it took longer than option {COMMIT_WITHIN} allows,"
            f" or Postgres has failed over and lost a reservation: {error}"
        ) from error
    except UnknownPartition as error:
        raise BatchNotCommitted(_name_topics(str(error), stored)) from error


async def _commit(location: LogLocation, batch: SinkBatch) -> SinkVerdict:
    async def attempt() -> SinkVerdict:
        commits = await SinkCommits.open(location.postgres)
        try:
            return await commits.commit(batch)
        finally:
            await commits.close()

    return await patiently(attempt, COMMIT_PATIENCE_S)


def abandon_messages(location: LogLocation, messages: Messages) -> None:
    """Give up what tasks have stored, unless it was committed.

    Raises:
        MetadataUnavailable: no answer; the sweeper does it later.
    """
    paths = [each.path for message in _stored(messages) for each in message.objects]
    if paths:
        asyncio.run(_abandon(location, paths))


async def _abandon(location: LogLocation, paths: Sequence[str]) -> None:
    commits = await SinkCommits.open(location.postgres)
    try:
        await commits.abandon(paths)
    finally:
        await commits.close()


def _stored(messages: Messages) -> list[SinkMessage]:
    """Return the messages of tasks that had rows; after a failure others have sent none."""
    return [each for each in messages if isinstance(each, SinkMessage) and each.objects]


def _name_topics(partitions: str, stored: Sequence[SinkMessage]) -> str:
    names: dict[UUID, str] = {}
    for message in stored:
        names.update(message.topic_names)
    gone = sorted(name for topic_id, name in names.items() if str(topic_id) in partitions)
    return f"deleted while they were written to: topics {', '.join(gone)}; nothing is committed"


def _this_batch() -> tuple[str, int]:
    """Return the id of the query, as its checkpoint has it, and the number of the micro-batch."""
    context = TaskContext.get()
    assert context is not None, "a stream is written inside of a task"
    query_id = context.getLocalProperty(_QUERY_ID)
    batch_id = context.getLocalProperty(_BATCH_ID)
    if query_id is None or batch_id is None:
        raise RuntimeError(f"this version of Spark does not tell tasks {_QUERY_ID} and {_BATCH_ID}")
    return query_id, int(batch_id)
