"""The metadata port's upkeep, on Postgres."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import asyncpg

from protocol.ids import Partition
from storage.metadata.segments import (
    SIZES_TIMEOUT_S,
    CleanableRange,
    ProducerKey,
    RetentionRequest,
    SegmentSwap,
    UnbuiltRange,
)
from storage.postgres.postgres_arrays import partition_columns
from storage.postgres.postgres_pool import PostgresPool
from storage.segment_entry import SegmentEntry

BEFORE_ALL: Final = Partition(UUID(int=0), -1)
BEFORE_ALL_PRODUCERS: Final = (BEFORE_ALL, -1)
MAX_PARTITIONS_PER_STEP = 25  # whose locks one statement of retention takes
EXPIRE_TIMEOUT_S = 60.0  # it looks at all rows that are kept by size: a million in a second
MAX_ROWS_PER_STEP = 500  # what one statement removes, so that no commit waits long for a partition


class PostgresSegments:
    """Segments; see SegmentStore for what each method promises."""

    _pool: PostgresPool
    _steps: PostgresPool  # for what takes locks: who waits for one is not in the way of readers

    async def clock_ms(self) -> int:
        (row,) = await self._pool.fetch("clock")
        return int(row["now_ms"])

    async def partition_sizes(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        rows = await self._pool.fetch_unhurried(
            "partition_find_sizes", *partition_columns(partitions), timeout_s=SIZES_TIMEOUT_S
        )
        return {_partition(row): row["size"] for row in rows}

    async def unbuilt_ranges(
        self, after: Partition | None, limit: int, max_rows: int
    ) -> tuple[list[UnbuiltRange], Partition | None]:
        rows = await self._pool.fetch(
            "partition_find_unbuilt", *(after or BEFORE_ALL), limit, max_rows
        )
        found = [
            UnbuiltRange(
                partition=_partition(row),
                built_offset=row["built_offset"],
                rows=row["row_count"],
                size=row["size"],
                age_ms=row["age_ms"],
            )
            for row in rows
            if row["row_count"]
        ]
        return found, _partition(rows[-1]) if len(rows) == limit else None

    async def cleanable_ranges(self, partitions: Sequence[Partition]) -> list[CleanableRange]:
        rows = await self._pool.fetch("partition_find_cleanable", *partition_columns(partitions))
        return [
            CleanableRange(
                partition=_partition(row),
                log_start_offset=row["log_start_offset"],
                compacted_offset=row["compacted_offset"],
                end_offset=row["end_offset"],
                clean_size=row["clean_size"],
                dirty_size=row["dirty_size"],
                dirty_since_ms=row["dirty_since_ms"],
            )
            for row in rows
        ]

    async def segments_from(
        self, partition: Partition, offset: int, limit: int
    ) -> list[SegmentEntry]:
        rows = await self._pool.fetch("segment_find_from", *partition, offset, limit)
        return [to_entry(row) for row in rows]

    async def segments_before(
        self, partition: Partition, offset: int, limit: int
    ) -> list[SegmentEntry]:
        rows = await self._pool.fetch("segment_find_before", *partition, offset, limit)
        return [to_entry(row) for row in rows]

    async def reserve_segment(
        self, partition: Partition, start_offset: int, end_offset: int
    ) -> str | None:
        (row,) = await self._steps.fetch_durable(
            "segment_reserve", *partition, start_offset, end_offset
        )
        path: str | None = row["path"]
        return path

    async def replace_segments(self, swap: SegmentSwap) -> bool:
        assert swap.replaced, "something is replaced"
        query = "segment_replace_compacted" if swap.compacts else "segment_replace"
        (row,) = await self._steps.fetch_durable(query, *to_arguments(swap))
        await self._release(row["released"])
        return bool(row["replaced"])

    async def _release(self, object_ids: Sequence[int] | None) -> None:
        """Doom what no row names any more, now that no commit has to wait for it."""
        if object_ids:
            await self._steps.fetch_durable("object_release", object_ids)

    async def step_over(self, partition: Partition, start_offset: int, end_offset: int) -> bool:
        return bool(
            await self._steps.fetch("partition_step_over", *partition, start_offset, end_offset)
        )

    async def set_compacted(
        self, partition: Partition, compacted_offset: int, *, cleaned_ms: int | None
    ) -> None:
        await self._steps.fetch("partition_set_compacted", *partition, compacted_offset, cleaned_ms)

    async def stored_ms(self, paths: Sequence[str]) -> dict[str, int]:
        rows = await self._pool.fetch("object_find_stored", list(paths))
        return {row["path"]: row["stored_ms"] for row in rows}

    async def expire_records(self, requests: Sequence[RetentionRequest]) -> dict[Partition, int]:
        moved: dict[Partition, int] = {}
        ascending = sorted(requests, key=lambda request: request.partition)  # as commits lock them
        for first in range(0, len(ascending), MAX_PARTITIONS_PER_STEP):
            some = ascending[first : first + MAX_PARTITIONS_PER_STEP]
            rows = await self._steps.fetch_durable(
                "partition_expire_records",
                *partition_columns([request.partition for request in some]),
                [request.before_ms for request in some],
                [request.keep_bytes for request in some],
                timeout_s=EXPIRE_TIMEOUT_S,
            )
            moved |= {_partition(row): row["log_start_offset"] for row in rows}
        return moved

    async def purge(self, limit: int) -> int:
        removed = 0
        for name in ("topic_purge", "partition_purge"):
            any_left = True
            while any_left and removed < limit:
                at_once = min(limit - removed, MAX_ROWS_PER_STEP)
                (row,) = await self._steps.fetch_durable(name, at_once)
                await self._release(row["released"])
                any_left = row["any_left"]
                removed += row["removed"]
        return removed

    async def expire_producers(
        self, after: ProducerKey | None, unused_ms: int, limit: int
    ) -> tuple[int, ProducerKey | None]:
        partition, producer_id = after or BEFORE_ALL_PRODUCERS
        (row,) = await self._steps.fetch(
            "producer_expire", unused_ms, *partition, producer_id, limit, limit
        )
        if row["next_topic_id"] is None:
            return row["removed"], None
        following = Partition(row["next_topic_id"], row["next_partition"])
        return row["removed"], (following, row["next_producer_id"])

    async def doom_abandoned(self, older_than_ms: int, limit: int) -> int:
        return len(await self._steps.fetch_durable("object_doom_abandoned", older_than_ms, limit))

    async def doom_unneeded(
        self, after: int, older_than_ms: int, limit: int
    ) -> tuple[int, int | None]:
        (row,) = await self._steps.fetch_durable(
            "object_doom_unneeded", after, older_than_ms, limit
        )
        return row["doomed"], row["next_id"]

    async def doomed_objects(self, grace_ms: int, limit: int) -> list[str]:
        rows = await self._steps.fetch_durable("object_find_doomed", grace_ms, limit)
        return [row["path"] for row in rows]

    async def forget_objects(self, paths: Sequence[str]) -> None:
        await self._steps.fetch("object_forget", list(paths))

    async def postpone_objects(self, paths: Sequence[str], delay_ms: int) -> None:
        await self._steps.fetch("object_postpone", list(paths), delay_ms)

    async def known_objects(self, paths: Sequence[str]) -> set[str]:
        rows = await self._pool.fetch("object_find_known", list(paths))
        return {row["path"] for row in rows}

    async def uncommitted_objects(self, paths: Sequence[str]) -> set[str]:
        rows = await self._pool.fetch("object_find_uncommitted", list(paths))
        return {row["path"] for row in rows}

    async def topic_folder(self, topic_id: UUID) -> str | None:
        rows = await self._pool.fetch("topic_find_folder", topic_id)
        return rows[0]["folder"] if rows else None


def to_entry(row: asyncpg.Record) -> SegmentEntry:
    """Return what statements that begin with `segment_find` say of a row."""
    return SegmentEntry(
        start_offset=row["start_offset"],
        end_offset=row["end_offset"],
        path=row["path"],
        start=row["byte_start"],
        length=row["byte_length"],
        max_timestamp_ms=row["max_timestamp_ms"],
        index_length=row["index_length"],
        inline=row["inline"],
    )


def to_arguments(swap: SegmentSwap) -> list[object]:
    """Return the arguments of segment_replace: an array per field of the rows."""
    return [
        *swap.partition,
        swap.path,
        swap.size,
        [entry.start_offset for entry in swap.replaced],
        [entry.end_offset for entry in swap.replaced],
        [entry.path for entry in swap.replaced],
        [entry.start for entry in swap.replaced],
        [entry.length for entry in swap.replaced],
        [entry.index_length for entry in swap.replaced],
        swap.start,
        swap.length,
        swap.index_length,
        swap.max_timestamp_ms,
    ]


def _partition(row: asyncpg.Record) -> Partition:
    return Partition(row["topic_id"], row["partition"])
