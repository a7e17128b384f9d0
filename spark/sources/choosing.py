"""From options to a cut: which partitions there are, and where in each to begin and to end."""

from collections.abc import Collection
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final

from spark.log_location import LogLocation
from spark.sources.cut import Cut, Range, TopicPartition
from spark.sources.log_index import LogIndex, Topics
from spark.sources.offsets_by_time import first_offset_at
from spark.sources.read_options import EARLIEST, LATEST, Bound, OfPartitions, ReadOptions
from spark.sources.read_options import Topics as WantedTopics
from storage.errors import MAY_HAVE_MOVED
from storage.objects.port import ObjectStore
from storage.partition_offsets import PartitionOffsets

SEVERAL: Final = 5


class UnknownTopic(ValueError):
    """A topic or partition that is read does not exist."""


class NoSuchTime(ValueError):
    """A partition has no record as late as its starting timestamp."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chooser:
    """Answers of one snapshot; where it names objects that are gone, a time's are of a later one.

    Attributes:
        location: of the objects that are looked into to find a timestamp; not opened otherwise.
    """

    index: LogIndex
    location: LogLocation
    options: ReadOptions

    async def cut(self) -> Cut:
        """Return the ranges that a batch query reads; they may be empty, or reach too far.

        Raises:
            UnknownTopic: one that is named does not exist.
            NoSuchTime: no record is late enough to start at.
            ValueError: offsets or timestamps are given for other partitions than are read.
            BadObject, ObjectStoreUnavailable: a timestamp cannot be looked up.
        """
        found = await self.partitions()
        starts = await self.starts(found)
        ends = await self.ends(found)
        return {each: Range(start=starts[each], end=ends[each]) for each in found}

    async def partitions(self) -> Topics:
        """Return what is read, with what each holds.

        Raises:
            UnknownTopic: a topic or partition that is named does not exist.
        """
        return await find_partitions(self.index, self.options.topics)

    async def starts(self, found: Topics) -> dict[TopicPartition, int]:
        """Return where each partition is read from."""
        return await self._offsets(self.options.starting, found, is_start=True)

    async def ends(self, found: Topics) -> dict[TopicPartition, int]:
        """Return one past the last offset that is read of each partition."""
        return await self._offsets(self.options.ending, found, is_start=False)

    def readable_end(self, offsets: PartitionOffsets) -> int:
        """Return what is the latest offset for this isolation level."""
        if self.options.read_committed:
            return offsets.last_stable_offset
        return offsets.high_watermark

    async def _offsets(
        self, bound: Bound, found: Topics, *, is_start: bool
    ) -> dict[TopicPartition, int]:
        if bound.timestamp_ms is not None:
            times = dict.fromkeys(found, bound.timestamp_ms)
            return await self._by_time(bound, found, times, is_start=is_start)
        if bound.timestamps_ms is not None:
            times = _each(bound, bound.timestamps_ms, found)
            return await self._by_time(bound, found, times, is_start=is_start)
        if bound.offsets is not None:
            wanted = _each(bound, bound.offsets, found)
        else:
            assert bound.offset is not None
            wanted = dict.fromkeys(found, bound.offset)
        return {each: self._resolve(offset, found[each]) for each, offset in wanted.items()}

    def _resolve(self, offset: int, offsets: PartitionOffsets) -> int:
        match offset:
            case _ if offset == EARLIEST:
                return offsets.log_start_offset
            case _ if offset == LATEST:
                return self.readable_end(offsets)
            case _:
                return offset

    async def _by_time(
        self, bound: Bound, found: Topics, times: dict[TopicPartition, int], *, is_start: bool
    ) -> dict[TopicPartition, int]:
        chosen: dict[TopicPartition, int] = {}
        opening: AbstractAsyncContextManager[ObjectStore] = self.location.objects()
        async with opening as objects:
            for each, timestamp_ms in times.items():
                end = self.readable_end(found[each])
                start_offset = found[each].log_start_offset
                offset = await self._first_at(objects, each, timestamp_ms, start_offset)
                if (offset is None or offset >= end) and is_start:
                    self._refuse_late(bound, each, timestamp_ms)
                chosen[each] = end if offset is None else min(offset, end)
        return chosen

    async def _first_at(
        self, objects: ObjectStore, partition: TopicPartition, timestamp_ms: int, start_offset: int
    ) -> int | None:
        """Look a time up, in rows of now where those of the snapshot were swapped and are gone."""
        try:
            return await first_offset_at(self.index, objects, partition, timestamp_ms, start_offset)
        except MAY_HAVE_MOVED:
            async with LogIndex.open(self.location.postgres) as index:
                return await first_offset_at(index, objects, partition, timestamp_ms, start_offset)

    def _refuse_late(self, bound: Bound, partition: TopicPartition, timestamp_ms: int) -> None:
        if not self.options.latest_if_too_late:
            raise NoSuchTime(
                f"option {bound.option}: {partition.topic}-{partition.partition} has no record of"
                f" {timestamp_ms} or later; startingOffsetsByTimestampStrategy=latest reads nothing"
            )


async def find_partitions(index: LogIndex, wanted: WantedTopics) -> Topics:
    """Return the partitions that exist of what is wanted.

    Raises:
        UnknownTopic: a topic or partition that is named does not exist.
    """
    if wanted.pattern is not None:
        pattern = wanted.pattern
        found = await index.topics()
        return {each: has for each, has in found.items() if pattern.search(each.topic)}
    if wanted.names is not None:
        found = await index.topics(wanted.names)
        missing = sorted(wanted.names - {each.topic for each in found})
        if missing:
            raise UnknownTopic(f"there is no topic {', '.join(missing[:SEVERAL])}")
        return found
    assert wanted.partitions is not None
    listed = await index.topics({topic for topic, _ in wanted.partitions})
    by_name = {(each.topic, each.partition): each for each in listed}
    if absent := sorted(wanted.partitions - by_name.keys()):
        raise UnknownTopic(f"there is no partition {_names(absent)}")
    return {by_name[pair]: listed[by_name[pair]] for pair in sorted(wanted.partitions)}


def _each(bound: Bound, given: OfPartitions, found: Topics) -> dict[TopicPartition, int]:
    """Return what is given for each partition; there has to be one for each, and no other."""
    pairs = {(each.topic, each.partition): each for each in found}
    if lacking := sorted(pairs.keys() - given.keys()):
        raise ValueError(
            f"option {bound.option}: nothing is said of {_names(lacking)}, which is read, too"
        )
    if beyond := sorted(given.keys() - pairs.keys()):
        raise ValueError(f"option {bound.option}: {_names(beyond)} is not read")
    return {pairs[pair]: value for pair, value in given.items()}


def _names(pairs: Collection[tuple[str, int]]) -> str:
    names = [f"{topic}-{partition}" for topic, partition in pairs]
    return ", ".join(names[:SEVERAL]) + (" ..." if len(names) > SEVERAL else "")
