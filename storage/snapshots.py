"""Snapshots: one moment of several topics, written down, so that jobs can read it again.

What a snapshot promises: it is one moment of the database over all partitions of its topics. Every
record that was acknowledged before it was made is in it, and of a transaction either everything or
nothing, across topics. Whoever reads it with the isolation level read_committed reads the same
records every time, as long as they are there.

What it does not: it holds nothing back. Retention and DeleteRecords move a log's start, compaction
takes records whose keys have later ones (so a key that was written again after the snapshot is
gone from it), the deletion of a topic takes it all; a topic that is made again under its name is
another one. `SnapshotPartition` tells what has become of each partition. Recovery from objects
alone (`streamctl recover`) knows no snapshots.

Old ones: a snapshot ends when it is deleted, or at the time it was made with; the next one that is
made removes what has ended by then.
"""

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

import asyncpg

from storage.config import PostgresConfig
from storage.postgres.postgres_pool import PostgresPool
from storage.postgres.postgres_text import from_stored, to_stored

MAX_ID_LENGTH: Final = 100
LIST_TIMEOUT_S: Final = 60.0
"""Of a look at all partitions of all snapshots: people wait for it."""


class SnapshotError(Exception):
    """Base of what keeps a snapshot from being made, read or deleted; brokers never see it."""


class SnapshotExists(SnapshotError):
    """There is a snapshot of that id."""


class UnknownSnapshot(SnapshotError):
    """No snapshot has that id: it was never made, was deleted, or has expired."""


class SnapshotTopicsMissing(SnapshotError):
    """Topics that are to be in a snapshot do not exist."""


class InvalidSnapshotId(SnapshotError):
    """An id begins with an ASCII letter, and goes on with letters, digits and . _ - only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A snapshot that can be read.

    Attributes:
        created_at: when it was made, by the database's clock.
        expires_at: when it ends by itself; None: never.
        topics: by name, as they were called then.
        partition_count: of all topics.
    """

    snapshot_id: str
    created_at: datetime
    expires_at: datetime | None
    topics: Sequence[str]
    partition_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPartition:
    """Where a partition began and ended, and what has become of it.

    Attributes:
        log_start_offset, high_watermark: as they were then; the latter is exclusive.
        first_offset: from where on its records are still there; None: its topic was deleted.
        compacted: it was compacted since, or is just being: records whose keys have later ones
            may be gone.
    """

    topic: str
    partition: int
    topic_id: UUID
    log_start_offset: int
    high_watermark: int
    first_offset: int | None
    compacted: bool

    @property
    def lost(self) -> int:
        """How many offsets were taken away since, without a look at compaction."""
        begins = self.high_watermark if self.first_offset is None else self.first_offset
        return max(min(begins, self.high_watermark) - self.log_start_offset, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction that had not ended: its records, from first_offset on, were not committed."""

    topic_id: UUID
    partition: int
    producer_id: int
    first_offset: int


class Snapshots:
    """The snapshots of one database; made by `open`."""

    def __init__(self, pool: PostgresPool) -> None:
        self._pool = pool

    @classmethod
    @asynccontextmanager
    async def open(
        cls, dsn: str, config: PostgresConfig | None = None
    ) -> AsyncIterator["Snapshots"]:
        """Connect for the length of a block.

        Raises:
            MetadataUnavailable: no answer, or no entry; as every other call.
        """
        pool = await PostgresPool.open(dsn, config or PostgresConfig(pool_size=1))
        try:
            yield cls(pool)
        finally:
            await pool.close()

    async def create(
        self, snapshot_id: str, topics: Collection[str] | None, *, retention_ms: int | None
    ) -> Snapshot:
        """Write down where topics are.

        After MetadataUnavailable nobody knows whether it was made: `describe` tells.

        Args:
            snapshot_id: its name from now on.
            topics: all partitions of these; None: of all there are.
            retention_ms: how long it can be read; None: until it is deleted.

        Raises:
            SnapshotExists, SnapshotTopicsMissing, InvalidSnapshotId: nothing was written.
        """
        names = None if topics is None else sorted(to_stored(name) for name in topics)
        try:
            rows = await self._pool.fetch_durable(
                "snapshot_create", snapshot_id, names, retention_ms
            )
        except asyncpg.CheckViolationError as error:
            raise InvalidSnapshotId(
                f"{snapshot_id!r}: a letter, then letters, digits and . _ -, at most"
                f" {MAX_ID_LENGTH} in all"
            ) from error
        (made,) = rows
        if made["missing"]:
            raise SnapshotTopicsMissing(", ".join(from_stored(name) for name in made["missing"]))
        if made["created_at"] is None:
            raise SnapshotExists(snapshot_id)
        return await self.describe(snapshot_id)

    async def find_all(self) -> list[Snapshot]:
        """Return those that can be read, the oldest first."""
        rows = await self._pool.fetch_unhurried("snapshot_list", None, timeout_s=LIST_TIMEOUT_S)
        return [_snapshot(row) for row in rows]

    async def describe(self, snapshot_id: str) -> Snapshot:
        """Return one.

        Raises:
            UnknownSnapshot: there is none of that id that can be read.
        """
        rows = await self._pool.fetch("snapshot_list", to_stored(snapshot_id))
        if not rows:
            raise UnknownSnapshot(snapshot_id)
        return _snapshot(rows[0])

    async def partitions(self, snapshot_id: str) -> list[SnapshotPartition]:
        """Return its partitions as they are now, by topic and partition; none if it is unknown."""
        return [
            SnapshotPartition(
                topic=from_stored(row["topic"]),
                partition=row["partition"],
                topic_id=row["topic_id"],
                log_start_offset=row["log_start_offset"],
                high_watermark=row["high_watermark"],
                first_offset=row["first_offset"],
                compacted=row["compacted"],
            )
            for row in await self._pool.fetch("snapshot_find", to_stored(snapshot_id))
        ]

    async def open_transactions(self, snapshot_id: str) -> list[OpenTransaction]:
        """Return what was open then, by partition."""
        return [
            OpenTransaction(
                topic_id=row["topic_id"],
                partition=row["partition"],
                producer_id=row["producer_id"],
                first_offset=row["first_offset"],
            )
            for row in await self._pool.fetch("snapshot_find_transactions", to_stored(snapshot_id))
        ]

    async def delete(self, snapshot_id: str) -> None:
        """Forget one.

        Raises:
            UnknownSnapshot: there is none of that id.
        """
        rows = await self._pool.fetch_durable("snapshot_delete", to_stored(snapshot_id))
        if not rows[0]["deleted"]:
            raise UnknownSnapshot(snapshot_id)


def _snapshot(row: asyncpg.Record) -> Snapshot:
    return Snapshot(
        snapshot_id=row["snapshot_id"],
        created_at=row["created_at"],
        expires_at=row["expires_at"],
        topics=[from_stored(name) for name in row["topics"] or ()],
        partition_count=row["partition_count"],
    )
