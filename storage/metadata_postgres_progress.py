"""The metadata port's progress, on Postgres."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import asyncpg

from storage.postgres_pool import PostgresPool
from storage.postgres_text import from_stored
from storage.progress import GroupProgress, TopicProgress

PROGRESS_TIMEOUT_S: Final = 30.0
"""Of statements that look at every partition, or every committed offset."""

_ROWS_AT_ONCE: Final = 500

ProgressT = TypeVar("ProgressT", TopicProgress, GroupProgress)


class PostgresProgress:
    """Progress; see ProgressStore for what each method promises."""

    _pool: PostgresPool

    async def topic_progress(self, limit: int) -> list[TopicProgress]:
        rows = await self._pool.fetch_unhurried(
            "progress_find_topics", limit, timeout_s=PROGRESS_TIMEOUT_S
        )
        return await _read(rows, _topic)

    async def group_progress(self, limit: int) -> list[GroupProgress]:
        rows = await self._pool.fetch_unhurried(
            "progress_find_groups", limit, timeout_s=PROGRESS_TIMEOUT_S
        )
        return await _read(rows, _group)


async def _read(
    rows: Sequence[asyncpg.Record], read: Callable[[asyncpg.Record], ProgressT]
) -> list[ProgressT]:
    """Read rows, which may be very many, and let the event loop go on meanwhile."""
    progress: list[ProgressT] = []
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        progress += [read(row) for row in rows[start : start + _ROWS_AT_ONCE]]
        await asyncio.sleep(0)
    return progress


def _topic(row: asyncpg.Record) -> TopicProgress:
    return TopicProgress(**dict(row))


def _group(row: asyncpg.Record) -> GroupProgress:
    return GroupProgress(**{**dict(row), "group_id": from_stored(row["group_id"])})
