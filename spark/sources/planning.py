"""From ranges of offsets to what tasks read.

A task gets the rows of the index that hold its offsets, so executors ask no database. Splits are
cut by bytes as they lie in the store, between rows; within rows only where more tasks are wanted,
or fewer records in each. All is of one snapshot. What happens to the log afterwards is the
reader's: rows that were replaced meanwhile are looked up again (spark/sources/split_reader.py).
"""

import logging
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil
from typing import Final

from spark.log_location import LogLocation
from spark.sources.cut import Cut, Range, TopicPartition
from spark.sources.log_index import LogIndex
from spark.sources.read_options import ReadOptions
from spark.sources.split import Aborted, Split
from storage.config import MiB
from storage.partition_offsets import PartitionOffsets
from storage.segment_entry import SegmentEntry

SPLIT_BYTES: Final = 64 * MiB
"""Of a task, as stored; a built segment has about as many."""
SPLIT_ROWS: Final = 2_000
"""Of a task: each row of the writer's objects is a GET."""

log = logging.getLogger(__name__)


class DataLoss(Exception):
    """Records that were asked for are not in the log (any more); the message says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """How a cut is read, whatever chose it.

    Attributes:
        read_committed: leave out aborted transactions, and end at the last stable offset.
        fail_on_data_loss: raise DataLoss; else what is gone is left out, with a warning.
        min_partitions: as many tasks as this at least, if there are as many offsets.
        max_records: offsets of a task at most.
        timestamps_ms: first timestamp wanted, and one past the last.
        include_headers: read them, too.
    """

    read_committed: bool = True
    fail_on_data_loss: bool = True
    min_partitions: int | None = None
    max_records: int | None = None
    timestamps_ms: tuple[int | None, int | None] = (None, None)
    include_headers: bool = False

    @classmethod
    def of(cls, options: ReadOptions) -> "PlanOptions":
        """Return what a reader's options say."""
        return cls(
            read_committed=options.read_committed,
            fail_on_data_loss=options.fail_on_data_loss,
            min_partitions=options.min_partitions,
            max_records=options.max_records,
            timestamps_ms=options.timestamps_ms,
            include_headers=options.include_headers,
        )


async def plan(
    index: LogIndex, location: LogLocation, cut: Cut, options: PlanOptions
) -> list[Split]:
    """Return what tasks read, in the order of topics, partitions and offsets.

    Ranges are checked against the log as the index's snapshot has it; empty ones need no split.

    Raises:
        DataLoss: a range reaches before the log start or behind the end, or a topic is gone.
        MetadataUnavailable: Postgres gave no answer.
    """
    within = await check(index, cut, options)
    splits: list[Split] = []
    for partition, offsets in sorted(within.items()):
        splits += await _plan_partition(index, location, partition, offsets, options)
    return list(_cut_further(splits, options))


async def check(index: LogIndex, cut: Cut, options: PlanOptions) -> Cut:
    """Return what there is of the ranges of a cut, without empty ones.

    Raises:
        DataLoss: as `plan`.
    """
    wanted = {each: offsets for each, offsets in cut.items() if offsets.start < offsets.end}
    there = await index.offsets(wanted)
    within: dict[TopicPartition, Range] = {}
    for partition, offsets in wanted.items():
        if partition not in there:
            lose(options.fail_on_data_loss, f"{_name(partition)} is gone: the topic was deleted")
            continue
        found = _clamp(partition, offsets, there[partition], options)
        if found.start < found.end:
            within[partition] = found
    return within


def lose(fail: bool, message: str) -> None:
    """Raise DataLoss, or warn of it.

    Raises:
        DataLoss: `fail` is set.
    """
    if fail:
        raise DataLoss(f"{message}; failOnDataLoss=false reads what there is")
    log.warning("data loss: %s", message)


def _clamp(
    partition: TopicPartition, offsets: Range, there: PartitionOffsets, options: PlanOptions
) -> Range:
    """Return the part of a range that can be read."""
    start, end = offsets.start, offsets.end
    if start < there.log_start_offset:
        lose(
            options.fail_on_data_loss,
            f"{_name(partition)}: offset {start} was asked for, the log begins at"
            f" {there.log_start_offset}",
        )
        start = there.log_start_offset
    last = there.last_stable_offset if options.read_committed else there.high_watermark
    if end > last:
        what = "the last stable offset is" if end <= there.high_watermark else "the log ends at"
        lose(
            options.fail_on_data_loss,
            f"{_name(partition)}: offsets before {end} were asked for, {what} {last}",
        )
        end = last
    return Range(start=start, end=end)


async def _plan_partition(
    index: LogIndex,
    location: LogLocation,
    partition: TopicPartition,
    offsets: Range,
    options: PlanOptions,
) -> list[Split]:
    first_ms = options.timestamps_ms[0]
    rows = await index.rows(partition, offsets, min_timestamp_ms=first_ms)
    if first_ms is None:  # else rows are left out
        _check_tiling(partition, offsets, rows, options)
    aborted: tuple[Aborted, ...] = ()
    if options.read_committed:
        aborted = await index.aborted(partition, offsets)
    groups = list(_group(rows))
    ranges = [
        Range(
            start=max(offsets.start, group[0].start_offset),
            end=min(offsets.end, group[-1].end_offset + 1),
        )
        for group in groups
    ]
    return [
        Split(
            location=location,
            partition=partition,
            offsets=of_group,
            rows=tuple(group),
            aborted=within,
            timestamps_ms=options.timestamps_ms,
            include_headers=options.include_headers,
            fail_on_data_loss=options.fail_on_data_loss,
        )
        for group, of_group, within in zip(groups, ranges, shared_out(aborted, ranges), strict=True)
    ]


def _check_tiling(
    partition: TopicPartition, offsets: Range, rows: Sequence[SegmentEntry], options: PlanOptions
) -> None:
    """Check that rows answer for all offsets of a range, side by side.

    Raises:
        DataLoss: the index has a hole.
    """
    reached = offsets.start
    for row in rows:
        if row.start_offset > reached:
            break
        reached = row.end_offset + 1
    if reached < offsets.end:
        lose(
            options.fail_on_data_loss,
            f"{_name(partition)}: the index has no row of offset {reached} (streamctl fsck)",
        )


def _group(rows: Sequence[SegmentEntry]) -> Iterator[list[SegmentEntry]]:
    """Yield neighbours that one task reads."""
    group: list[SegmentEntry] = []
    size = 0
    for row in rows:
        if group and (size + row.length > SPLIT_BYTES or len(group) == SPLIT_ROWS):
            yield group
            group, size = [], 0
        group.append(row)
        size += row.length
    if group:
        yield group


def _cut_further(splits: Sequence[Split], options: PlanOptions) -> Iterator[Split]:
    """Yield splits of so few offsets that there are as many, or each has as few, as is wanted."""
    limits = [] if options.max_records is None else [options.max_records]
    if options.min_partitions is not None and len(splits) < options.min_partitions:
        total = sum(split.offsets.end - split.offsets.start for split in splits)
        limits.append(max(total // options.min_partitions, 1))
    if not limits:
        yield from splits
        return
    for split in splits:
        start, end = split.offsets.start, split.offsets.end
        parts = ceil((end - start) / min(limits))
        edges = [start + (end - start) * number // parts for number in range(parts + 1)]
        ranges = [Range(start=first, end=last) for first, last in pairwise(edges)]
        for offsets, within in zip(ranges, shared_out(split.aborted, ranges), strict=True):
            rows = tuple(
                row
                for row in split.rows
                if row.end_offset >= offsets.start and row.start_offset < offsets.end
            )
            yield replace(split, offsets=offsets, rows=rows, aborted=within)


def shared_out(aborted: Sequence[Aborted], ranges: Sequence[Range]) -> list[tuple[Aborted, ...]]:
    """Return for each of some ranges, which ascend, the transactions with records in it.

    Each transaction is looked at once: there may be 200,000 of them, and as many ranges.
    """
    starts = [each.start for each in ranges]
    within: list[list[Aborted]] = [[] for _ in ranges]
    for one in aborted:
        first = max(bisect_right(starts, one.first_offset) - 1, 0)
        for at in range(first, bisect_right(starts, one.last_offset)):
            if one.first_offset < ranges[at].end:
                within[at].append(one)
    return [*map(tuple, within)]


def _name(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"
