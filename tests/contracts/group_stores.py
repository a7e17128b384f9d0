"""Stores of groups whose time passes when the test says, and short words for their tests."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Final

import asyncpg

from protocol.ids import Partition
from storage.metadata.groups import (
    CommittedOffset,
    CommittedOffsets,
    GroupRecord,
    GroupWrite,
    WriteOutcome,
)
from storage.metadata.port import MetadataStore
from storage.postgres.postgres_connection import Connection
from tests.contracts.metadata_stores import patient_postgres
from tests.support.fakes.metadata import MemoryMetadata

NOTHING: Final = WriteOutcome(fenced=frozenset(), unknown=frozenset())
AGE: Final = """
    UPDATE streamhouse_internal.groups SET
        touched_at = touched_at - $1::bigint * interval '1 ms',
        empty_since = empty_since - $1::bigint * interval '1 ms'
"""
AGE_OFFSETS: Final = """
    UPDATE streamhouse_internal.group_offsets SET
        committed_at = committed_at - $1::bigint * interval '1 ms'
"""


@dataclass(frozen=True, slots=True)
class Groups:
    """A store, and the hand of time.

    Attributes:
        passes: makes all groups older, by so many milliseconds.
        dsn: of the store's Postgres; None in memory.
    """

    store: MetadataStore
    passes: Callable[[int], Awaitable[None]]
    dsn: str | None = None

    async def take(self, group_id: str) -> int:
        """Take a group, made if it is not there; return the owner epoch."""
        (taken,) = await self.store.take_groups([group_id], create=True)
        assert taken.group_id == group_id
        return taken.owner_epoch

    async def save(self, group_id: str, owner_epoch: int, **fields: object) -> WriteOutcome:
        """Write a record."""
        write = GroupWrite(
            group_id=group_id,
            owner_epoch=owner_epoch,
            record=a_record(group_id, **fields),
            offsets={},
        )
        return await self.store.write_groups([write])

    async def commit(
        self, group_id: str, owner_epoch: int, offsets: Mapping[Partition, int]
    ) -> WriteOutcome:
        return await self.store.write_groups([a_commit(group_id, owner_epoch, offsets)])

    async def committed(self, group_id: str) -> dict[Partition, int]:
        """Return all that a group committed."""
        found = await self.store.committed_offsets(group_id, None)
        return {partition: committed.offset for partition, committed in found.offsets.items()}

    async def ids(self) -> list[str]:
        return sorted([group.group_id async for group in self.store.list_groups()])


@asynccontextmanager
async def open_groups(kind: str) -> AsyncIterator[Groups]:
    """Open an empty store."""
    if kind == "memory":
        now_ms = [1_000_000]

        async def pass_in_memory(milliseconds: int) -> None:
            now_ms[0] += milliseconds

        yield Groups(MemoryMetadata(Random(1), lambda: now_ms[0]), pass_in_memory)
        return
    async with patient_postgres() as (dsn, store):
        connection: Connection = await asyncpg.connect(dsn)

        async def pass_in_postgres(milliseconds: int) -> None:
            await connection.execute(AGE, milliseconds)
            await connection.execute(AGE_OFFSETS, milliseconds)

        try:
            yield Groups(store, pass_in_postgres, dsn)
        finally:
            await connection.close()


def a_record(group_id: str, **fields: object) -> GroupRecord:
    """A stable classic group of two members, but for what `fields` say."""
    usual: dict[str, object] = {
        "group_type": "Classic",
        "state": "Stable",
        "protocol_type": "consumer",
        "generation_id": 1,
        "member_count": 2,
        "document": '{"members": []}',
    }
    return GroupRecord(group_id=group_id, **(usual | fields))  # type: ignore[arg-type]


def a_commit(group_id: str, owner_epoch: int, offsets: Mapping[Partition, int]) -> GroupWrite:
    """Offsets without a note."""
    return GroupWrite(
        group_id=group_id,
        owner_epoch=owner_epoch,
        offsets={
            partition: CommittedOffset(offset=offset) for partition, offset in offsets.items()
        },
    )


def fenced(*group_ids: str) -> WriteOutcome:
    return WriteOutcome(fenced=frozenset(group_ids), unknown=frozenset())


def unknown(*partitions: Partition) -> WriteOutcome:
    return WriteOutcome(fenced=frozenset(), unknown=frozenset(partitions))


def settled(offsets: Mapping[Partition, CommittedOffset]) -> CommittedOffsets:
    """What is committed of a group that no open transaction has offsets for."""
    return CommittedOffsets(offsets=offsets, unstable=frozenset())
