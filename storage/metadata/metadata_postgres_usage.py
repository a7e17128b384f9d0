"""The metadata port's usage, on Postgres."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Final

import asyncpg

from storage.metadata.usage import (
    DELETED_TOPIC,
    OTHER,
    StoredBytes,
    UsageBy,
    UsageCounts,
    UsageRow,
    UsageTotal,
)
from storage.postgres.postgres_pool import PostgresPool
from storage.postgres.postgres_text import from_stored, to_stored

REPORT_TIMEOUT_S: Final = 60.0
"""Of statements that look at months of hours, or at all of the index: people wait for them."""

_COUNTS: Final = tuple(field.name for field in fields(UsageCounts))


class PostgresUsage:
    """Usage; see UsageStore for what each method promises."""

    _pool: PostgresPool

    async def add_usage(self, rows: Sequence[UsageRow]) -> None:
        await self._pool.fetch(
            "usage_add",
            [row.hour_ms for row in rows],
            [row.topic_id for row in rows],
            [to_stored(row.client_id) for row in rows],
            *([getattr(row.counts, name) for row in rows] for name in _COUNTS),
            DELETED_TOPIC,
        )

    async def usage(
        self, since_ms: int, until_ms: int, by: UsageBy, *, limit: int
    ) -> list[UsageTotal]:
        arguments = (since_ms, until_ms, by.value, limit, OTHER)
        rows = await self._pool.fetch_unhurried(
            "usage_find", *arguments, timeout_s=REPORT_TIMEOUT_S
        )
        return [_total(row) for row in rows]

    async def stored_bytes(self) -> StoredBytes:
        rows = await self._pool.fetch_unhurried("usage_find_stored", timeout_s=REPORT_TIMEOUT_S)
        sizes = {row["topic"]: row["size"] for row in rows}
        total = sizes.pop(None)
        return StoredBytes(topics={name: size for name, size in sizes.items() if size}, total=total)

    async def forget_usage(self, older_than_ms: int, limit: int) -> int:
        rows = await self._pool.fetch("usage_forget", older_than_ms, limit)
        return int(rows[0]["row_count"])


def _total(row: asyncpg.Record) -> UsageTotal:
    return UsageTotal(
        key=from_stored(row["key"]),
        first_hour_ms=row["first_hour_ms"],
        counts=UsageCounts(**{name: row[name] for name in _COUNTS}),
    )
