"""The index as fsck asks it: every answer is of one moment, whatever brokers do meanwhile."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, NamedTuple, Self
from uuid import UUID

from protocol.ids import Partition
from sql import query
from storage.config import PostgresConfig
from storage.fsck.fsck_tiling import PartitionState, RowExtent
from storage.postgres.postgres_connection import (
    Connection,
    connect_unlimited,
    unavailable_without_answer,
)

PAGE: Final = 1000
ANSWER_S: Final = 120.0
_BEFORE_ALL: Final = Partition(UUID(int=0), -1)
_NEXT: Final = "\x01"  # behind a path, it comes before every other path behind it


class IndexedObject(NamedTuple):
    """One object, as the index has it.

    Attributes:
        size: bytes; None until it is live.
        age_ms: since it has been in this state.
        row_count: rows that name it.
        end_byte: where the last one of them ends, with its index.
        is_built: one of them is a built segment.
    """

    path: str
    state: str
    size: int | None
    age_ms: int
    row_count: int
    end_byte: int
    is_built: bool


class FsckIndex:
    """One session of its own, which changes nothing."""

    def __init__(self, connection: Connection) -> None:
        self._db = connection

    @classmethod
    @asynccontextmanager
    async def open(cls, dsn: str, config: PostgresConfig) -> AsyncIterator[Self]:
        """Connect; close afterwards.

        Raises:
            MetadataUnavailable: nobody there, or no entry.
        """
        connection = await connect_unlimited(dsn, config, command_timeout_s=ANSWER_S)
        try:
            yield cls(connection)
        finally:
            connection.terminate()

    async def partitions(self) -> AsyncIterator[Partition]:
        """Yield all partitions."""
        after = _BEFORE_ALL
        while True:
            with unavailable_without_answer():
                rows = await self._db.fetch(query("fsck_find_partitions"), *after, PAGE)
            for row in rows:
                after = Partition(row["topic_id"], row["partition"])
                yield after
            if len(rows) < PAGE:
                return

    @asynccontextmanager
    async def snapshot(
        self, partition: Partition
    ) -> AsyncIterator[tuple[PartitionState, AsyncIterator[RowExtent]] | None]:
        """Give a partition, and all of its rows, as of one moment; None if it is gone."""
        with unavailable_without_answer():
            async with self._db.transaction(isolation="repeatable_read", readonly=True):
                row = await self._db.fetchrow(query("fsck_find_partition"), *partition)
                if row is None:
                    yield None
                    return
                state = PartitionState(
                    topic=row["name"],
                    partition=partition,
                    log_start_offset=row["log_start_offset"],
                    high_watermark=row["high_watermark"],
                    built_offset=row["built_offset"],
                )
                yield state, self._rows(partition)

    async def _rows(self, partition: Partition) -> AsyncIterator[RowExtent]:
        cursor = self._db.cursor(query("fsck_find_rows"), *partition, prefetch=PAGE)
        async for row in cursor:
            yield RowExtent(row["start_offset"], row["end_offset"], row["is_built"])

    async def objects(self, prefix: str) -> AsyncIterator[IndexedObject]:
        """Yield the objects whose paths begin with `prefix`, in the order of their paths."""
        first = prefix
        while True:
            page = await self._page(first, prefix + "\U0010ffff")
            for one in page:
                yield one
            if len(page) < PAGE:
                return
            first = page[-1].path + _NEXT

    async def object(self, path: str) -> IndexedObject | None:
        """Return the object of that path, as it is now."""
        page = await self._page(path, path + _NEXT)
        return page[0] if page else None

    async def _page(self, first: str, before: str) -> list[IndexedObject]:
        with unavailable_without_answer():
            rows = await self._db.fetch(query("fsck_find_objects"), first, before, PAGE)
        return [IndexedObject(*row.values()) for row in rows]
