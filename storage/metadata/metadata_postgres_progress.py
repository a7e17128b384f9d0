"""The metadata port's progress, on Postgres."""

from typing import Final

import asyncpg

from storage.metadata.progress import GroupProgress, TopicProgress
from storage.postgres.postgres_pool import PostgresPool
from storage.postgres.postgres_rows import read_rows
from storage.postgres.postgres_text import from_stored

PROGRESS_TIMEOUT_S: Final = 30.0
"""Of statements that look at every partition, or every committed offset."""


class PostgresProgress:
    """Progress; see ProgressStore for what each method promises."""

    _pool: PostgresPool

    async def topic_progress(self, limit: int) -> list[TopicProgress]:
        rows = await self._pool.fetch_unhurried(
            "progress_find_topics", limit, timeout_s=PROGRESS_TIMEOUT_S
        )
        return await read_rows(rows, _topic)

    async def group_progress(self, limit: int) -> list[GroupProgress]:
        rows = await self._pool.fetch_unhurried(
            "progress_find_groups", limit, timeout_s=PROGRESS_TIMEOUT_S
        )
        return await read_rows(rows, _group)


def _topic(row: asyncpg.Record) -> TopicProgress:
    return TopicProgress(**dict(row))


def _group(row: asyncpg.Record) -> GroupProgress:
    return GroupProgress(**{**dict(row), "group_id": from_stored(row["group_id"])})
