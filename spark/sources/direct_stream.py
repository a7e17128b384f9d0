"""readStream.format("streamhouse"): a topic as it grows, without brokers.

Options are those of a batch read (spark/sources/read_options.py) without ends, and

    startingOffsets       latest (default), earliest or JSON; only a query without a checkpoint asks
    maxOffsetsPerTrigger  offsets of one batch at most, over all partitions; no limit by default
    commitGroup           a consumer group without members that is told how far the query is; one
                          that gets members later is left alone, with a warning

A query may die at any step between two batches, and goes on where its checkpoint says:
- before Spark has written the end of a batch down: nothing was read; the end is asked for anew.
- after that, before the batch is done: the batch is read again, from and to the same offsets. Its
  records are the same ones unless retention, DeleteRecords or compaction took some meanwhile: the
  first two are DataLoss, the last is what a compacted topic means. Where a first batch began is
  part of its end (spark/sources/stream_offset.py), so "latest" means the same when it is repeated.
- after it is done: the next one begins at its end. A sink that takes each batch once hence has
  each record once.

While it runs: partitions and topics (of subscribePattern) that come are read from offset 0, and
records that were gone from them before they were seen are DataLoss. Deleted topics are DataLoss,
and so are those that a later run no longer asks for; with failOnDataLoss=false they are left out,
and read from offset 0 if they are asked for again. A topic that is made again under its name is a
new one.

Trigger.AvailableNow: Spark knows no such trigger for sources in Python; it warns, and makes one
batch of all there is, or of maxOffsetsPerTrigger. After a crash that one batch is the one that was
not done, with what it had. The next run goes on behind that: whoever wants all there is runs it
until it makes no batch.

The reader lives in a process of Spark's driver, a copy of it goes with each task and reads there.
An outage of Postgres is waited out for a minute; then the query fails, and can be started again.
"""

import logging
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from spark.log_location import LogLocation
from spark.sources.choosing import Chooser, find_partitions
from spark.sources.cut import TopicPartition
from spark.sources.group_progress import GroupHasMembers, GroupProgress
from spark.sources.kept_connection import KeptConnection
from spark.sources.log_index import LogIndex, Topics
from spark.sources.planning import DataLoss, PlanOptions, plan
from spark.sources.read_options import ReadOptions
from spark.sources.snapshots import AS_OF, find_as_of
from spark.sources.split import Split
from spark.sources.split_reader import read_split
from spark.sources.stream_offset import Positions, StreamOffset, batch_ranges, limited
from storage.errors import MetadataUnavailable
from storage.partition_offsets import PartitionOffsets

MAX_OFFSETS: Final = "maxOffsetsPerTrigger"
COMMIT_GROUP: Final = "commitGroup"

log = logging.getLogger(__name__)


class DirectStreamReader(DataSourceStreamReader):
    """What Spark asks between batches; options are read at the first question."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._given = dict(options)
        self._driver: _Driver | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return where a query begins that has done no batch."""
        return self._in_driver.initial().to_json()

    def latestOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return where the next batch ends; what was returned before if there is nothing new."""
        return self._in_driver.latest().to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return what the tasks of a batch read; none of an empty one.

        Spark calls it with the last end of a checkpoint, twice, before it asks for anything else.
        """
        return list(self._in_driver.plan(StreamOffset.of(start), StreamOffset.of(end)))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Split)
        return read_split(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Take note that a batch is done: Spark says so when it begins with the next one."""
        self._in_driver.done(StreamOffset.of(end))

    def stop(self) -> None:
        if self._driver is not None:
            self._driver.close()
            self._driver = None

    @property
    def _in_driver(self) -> "_Driver":
        if self._driver is None:
            self._driver = _Driver(self._given)
        return self._driver


class _Driver:
    """The state of a query between batches, and its connection: never pickled."""

    def __init__(self, given: Mapping[str, str]) -> None:
        lowered = {name.lower(): value for name, value in given.items()}
        if find_as_of(given) is not None:
            raise ValueError(f"option {AS_OF}: a streaming query has no end")
        self._options = ReadOptions.of(given, streaming=True, others=(MAX_OFFSETS, COMMIT_GROUP))
        self._max_offsets = _positive(lowered.get(MAX_OFFSETS.lower()))
        self._location = LogLocation.of(given)
        group_id = lowered.get(COMMIT_GROUP.lower())
        self._group = GroupProgress(group_id) if group_id else None
        self._connection = KeptConnection(self._location.postgres)
        self._initial: StreamOffset | None = None
        self._last: StreamOffset | None = None  # end of what was handed out, or in the checkpoint
        self._planned = False  # batches up to there were begun

    def initial(self) -> StreamOffset:
        if self._initial is None:
            began_at = None if self._last is None else self._last.began_at
            if began_at is not None:  # the first batch is to be done again
                self._initial = StreamOffset(positions=began_at, is_initial=True)
            else:
                self._initial = self._connection.run(self._find_initial)
        return self._initial

    def latest(self) -> StreamOffset:
        if self._last is None:
            self._last = self.initial()
        elif self._planned:
            # Between batches: whatever was begun is done. So an idle query has no lag.
            self.done(self._last)
        before = self._last
        ends = self._ends(before.positions, self._connection.run(self._find_partitions))
        self._last = before.following(limited(before.positions, ends, self._max_offsets))
        self._planned = self._planned and self._last is before
        return self._last

    def plan(self, start: StreamOffset, end: StreamOffset) -> list[Split]:
        if self._last is None:
            self._last = end
        self._planned = end == self._last
        if start == end:
            return []
        cut = batch_ranges(start, end)
        self._check_order(start, end)

        async def planned() -> list[Split]:
            async with LogIndex.open(self._location.postgres) as index:
                return await plan(index, self._location, cut, PlanOptions.of(self._options))

        return self._connection.run(planned)

    def _check_order(self, start: StreamOffset, end: StreamOffset) -> None:
        """Refuse to go back: Spark has a checkpoint that it did not tell of before.

        Raises:
            DataLoss: a batch would end before it begins, and records be read again.
        """
        if start.is_initial:
            return
        for each, until in end.positions.items():
            at = start.positions.get(each, 0)
            if until < at:
                self._lose(
                    f"{each.topic}-{each.partition}: a batch would end at {until}, where it begins"
                    f" at {at}"
                )

    def done(self, end: StreamOffset) -> None:
        """Report to the group; a query does not fail because nobody hears it."""
        group = self._group
        if group is None or end.is_initial:
            return

        async def report() -> None:
            await group.report(await self._connection.get(), end.positions)

        try:
            self._connection.run_once(report)
        except (MetadataUnavailable, GroupHasMembers) as error:
            log.warning("progress not reported to the group: %s", error)

    def close(self) -> None:
        self._connection.close()

    def _ends(self, begins: Positions, found: Topics) -> dict[TopicPartition, int]:
        """Return how far there is something to read; never before `begins`."""
        ends: dict[TopicPartition, int] = {}
        for each, has in found.items():
            at = begins.get(each, 0)
            if at > has.high_watermark:
                self._lose(f"{each.topic}-{each.partition} ends at {has.high_watermark}, not {at}")
                at = 0  # the end is moved back to where the log ends
            ends[each] = max(at, self._readable_end(has))
        if gone := begins.keys() - found.keys():
            there = self._connection.run(partial(self._find_offsets, gone)).keys()
            self._lose_partitions("deleted while it was read", gone - there)
            self._lose_partitions("no longer asked for", gone & there)
        return ends

    def _lose_partitions(self, what: str, partitions: Collection[TopicPartition]) -> None:
        if partitions:
            names = (f"{each.topic}-{each.partition}" for each in sorted(partitions)[:5])
            self._lose(f"{what}: {', '.join(names)}")

    def _lose(self, what: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLoss(f"{what}; failOnDataLoss=false goes on with what there is")
        log.warning("data loss: %s", what)

    def _readable_end(self, has: PartitionOffsets) -> int:
        return has.last_stable_offset if self._options.read_committed else has.high_watermark

    async def _find_initial(self) -> StreamOffset:
        if self._group is not None:
            await self._group.check(await self._connection.get())
        async with LogIndex.open(self._location.postgres) as index:
            chooser = Chooser(index=index, location=self._location, options=self._options)
            found = await chooser.partitions()
            return StreamOffset(positions=await chooser.starts(found), is_initial=True)

    async def _find_offsets(self, partitions: Collection[TopicPartition]) -> Topics:
        index = await LogIndex.on(await self._connection.get())
        return await index.offsets(partitions)

    async def _find_partitions(self) -> Topics:
        """Return the partitions there are; one statement, so it is one moment of all of them.

        Raises:
            MetadataWentBack: the database is marked; Spark would write the end of a batch down that
                is of another past.
        """
        index = await LogIndex.on(await self._connection.get())
        wanted = self._options.topics
        if wanted.pattern is not None:
            return await find_partitions(index, wanted)
        if wanted.names is not None:
            return await index.topics(wanted.names)
        assert wanted.partitions is not None
        listed = await index.topics({topic for topic, _ in wanted.partitions})
        pairs = wanted.partitions
        return {each: has for each, has in listed.items() if (each.topic, each.partition) in pairs}


def _positive(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        number = int(text)
    except ValueError as error:
        raise ValueError(f"option {MAX_OFFSETS}: {text!r} is no whole number") from error
    if number < 1:
        raise ValueError(f"option {MAX_OFFSETS}: {number} is less than 1")
    return number
