"""Which rows of a partition become its next built segment."""

from dataclasses import dataclass
from typing import Final

from protocol.ids import Partition
from storage.metadata.port import MetadataStore
from storage.segment_entry import SegmentEntry
from storage.upkeep.policies import TopicPolicy

PAGE: Final = 1000
MAX_ROWS: Final = 4096
MAX_MERGED: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsToBuild:
    """Adjacent rows in offset order.

    Attributes:
        built: segments that are built again, together with what follows them; often none.
        unbuilt: rows of the writer's; empty if there is nothing to do.
    """

    built: list[SegmentEntry]
    unbuilt: list[SegmentEntry]


async def choose_rows(
    metadata: MetadataStore,
    partition: Partition,
    policy: TopicPolicy,
    *,
    built_offset: int,
    target_bytes: int,
) -> RowsToBuild:
    """Choose as many rows as make a segment of `target_bytes`; one alone may exceed it.

    Args:
        metadata: where rows are.
        partition: of the rows.
        policy: of its topic.
        built_offset: where what is not built begins.
        target_bytes: of the batches.

    Raises:
        MetadataUnavailable: no answer.
    """
    unbuilt = await _unbuilt_rows(metadata, partition, built_offset, target_bytes)
    if not unbuilt:
        return RowsToBuild(built=[], unbuilt=[])
    size = sum(entry.length for entry in unbuilt)
    least_offset = await _compacted_offset(metadata, partition) if policy.compact else 0
    built: list[SegmentEntry] = []
    offset = unbuilt[0].start_offset
    for entry in await metadata.segments_before(partition, offset, MAX_MERGED):
        if not entry.index_length or entry.end_offset + 1 != offset or entry.is_gap:
            break
        if entry.length > size or entry.length + size > target_bytes:
            break
        if entry.start_offset < least_offset:
            break
        built.insert(0, entry)
        size += entry.length
        offset = entry.start_offset
    return RowsToBuild(built=built, unbuilt=unbuilt)


async def _unbuilt_rows(
    metadata: MetadataStore, partition: Partition, offset: int, target_bytes: int
) -> list[SegmentEntry]:
    rows: list[SegmentEntry] = []
    size = 0
    while len(rows) < MAX_ROWS:
        page = await metadata.segments_from(partition, offset, PAGE)
        for entry in page:
            if rows and size + entry.length > target_bytes:
                return rows
            rows.append(entry)
            size += entry.length
        if len(page) < PAGE:
            break
        offset = page[-1].end_offset + 1
    return rows


async def _compacted_offset(metadata: MetadataStore, partition: Partition) -> int:
    """Return before which offset segments are clean: compaction tells them from dirty ones."""
    ranges = await metadata.cleanable_ranges([partition])
    return ranges[0].compacted_offset if ranges else 0
