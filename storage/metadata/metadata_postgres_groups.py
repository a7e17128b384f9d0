"""The metadata port's consumer groups, on Postgres."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence

import asyncpg

from protocol.ids import Partition
from storage.errors import MetadataUnavailable, RowsHeld
from storage.metadata.groups import (
    CommittedOffset,
    CommittedOffsets,
    GroupListing,
    GroupRecord,
    GroupWrite,
    TakenGroup,
    WriteOutcome,
)
from storage.metadata.metadata_group_writes import in_order, to_arguments, to_outcome
from storage.postgres.commit_connection import CommitConnection
from storage.postgres.postgres_arrays import partition_columns
from storage.postgres.postgres_pages import fetch_by_pages
from storage.postgres.postgres_pool import PostgresPool
from storage.postgres.postgres_text import from_stored, to_stored

MAX_GROUPS_PER_EXPIRY = 200  # what one statement looks at, so that none takes long
MAX_OFFSETS_PER_EXPIRY = 10_000
MAX_OFFSETS_PER_DELETE = 10_000  # a group with more goes with one statement all the same


class GroupWriter:
    """The one connection on which a broker writes groups, so that its writes keep their order.

    A write that got no answer may still happen, after others that wait here behind it; so none of
    those may go on with a group of the lost one, until that group is taken again.
    """

    def __init__(self, connection: CommitConnection) -> None:
        self._connection = connection
        self._turn = asyncio.Lock()  # first come, first served
        self._lost: dict[str, int] = {}  # owner epochs of groups with a write that got no answer

    async def hold(self) -> None:
        """Connect already (see CommitConnection)."""
        await self._connection.hold()

    async def write(self, writes: Sequence[GroupWrite]) -> WriteOutcome:
        ordered = in_order(writes)
        arguments = to_arguments(ordered)
        async with self._turn:
            for write in ordered:
                if self._lost.get(write.group_id, -1) >= write.owner_epoch:
                    raise MetadataUnavailable(f"group {write.group_id!r} has to be taken again")
            try:
                answer = await self._connection.fetch_row("group_write", *arguments)
            except RowsHeld:  # which is an answer: nothing will happen any more
                raise
            except BaseException:  # cancelled, too: nobody can know what the session still does
                self._lost.update((write.group_id, write.owner_epoch) for write in ordered)
                raise
        return to_outcome(ordered, answer["fenced"], answer["unknown"])

    def taken(self, owner_epochs: Mapping[str, int]) -> None:
        """Go on with groups that were taken again: what was lost has happened, or never will."""
        for group_id, owner_epoch in owner_epochs.items():
            if self._lost.get(group_id, owner_epoch) < owner_epoch:
                del self._lost[group_id]

    async def close(self) -> None:
        await self._connection.close()


class PostgresGroups:
    """Groups; see GroupStore for what each method promises."""

    _pool: PostgresPool
    _group_writer: GroupWriter

    async def take_groups(self, group_ids: Sequence[str], *, create: bool) -> list[TakenGroup]:
        rows = await self._pool.fetch(
            "group_take", sorted(to_stored(group_id) for group_id in group_ids), create
        )
        taken = [_taken(row) for row in rows]
        self._group_writer.taken({group.group_id: group.owner_epoch for group in taken})
        return taken

    async def write_groups(self, writes: Sequence[GroupWrite]) -> WriteOutcome:
        return await self._group_writer.write(writes)

    async def committed_offsets(
        self, group_id: str, partitions: Sequence[Partition] | None
    ) -> CommittedOffsets:
        if partitions is None:
            rows = await self._pool.fetch("group_find_all_offsets", to_stored(group_id))
        else:
            rows = await self._pool.fetch(
                "group_find_offsets", to_stored(group_id), *partition_columns(partitions)
            )
        return CommittedOffsets(
            offsets={
                _partition(row): _committed(row)
                for row in rows
                if row["committed_offset"] is not None
            },
            unstable=frozenset(_partition(row) for row in rows if row["unstable"]),
        )

    async def list_groups(self) -> AsyncIterator[GroupListing]:
        async for row in fetch_by_pages(self._pool, "group_list", "group_id"):
            yield GroupListing(
                group_id=from_stored(row["group_id"]),
                group_type=row["group_type"],
                state=row["state"],
                protocol_type=from_stored(row["protocol_type"]),
                member_count=row["member_count"],
            )

    async def has_group(self, group_id: str) -> bool:
        return bool(await self._pool.fetch("group_find_members", to_stored(group_id)))

    async def delete_groups(self, owned: Mapping[str, int]) -> dict[str, bool]:
        group_ids = [to_stored(group_id) for group_id in owned]
        rows = await self._pool.fetch(
            "group_delete", group_ids, list(owned.values()), MAX_OFFSETS_PER_DELETE
        )
        return {from_stored(row["group_id"]): row["deleted"] for row in rows}

    async def delete_offsets(
        self, group_id: str, owner_epoch: int, partitions: Sequence[Partition]
    ) -> bool:
        rows = await self._pool.fetch(
            "group_delete_offsets", to_stored(group_id), owner_epoch, *partition_columns(partitions)
        )
        return bool(rows[0][0])

    async def expire_offsets(self, retention_ms: int) -> int:
        limits = (MAX_GROUPS_PER_EXPIRY, MAX_OFFSETS_PER_EXPIRY)
        gone = 0
        next_group: str | None = ""
        while next_group is not None:
            rows = await self._pool.fetch("group_expire_offsets", retention_ms, next_group, *limits)
            gone += rows[0]["offset_count"] + rows[0]["group_count"]
            next_group = rows[0]["next_group"]
        return gone

    async def expire_left_topics(
        self, group_id: str, owner_epoch: int, subscribed: Collection[str], retention_ms: int
    ) -> int:
        rows = await self._pool.fetch(
            "group_expire_left_topics",
            to_stored(group_id),
            owner_epoch,
            [to_stored(name) for name in subscribed],  # of clients: any text
            retention_ms,
        )
        return int(rows[0][0])


def _partition(row: asyncpg.Record) -> Partition:
    return Partition(row["topic_id"], row["partition"])


def _committed(row: asyncpg.Record) -> CommittedOffset:
    return CommittedOffset(
        offset=row["committed_offset"],
        leader_epoch=row["leader_epoch"],
        metadata=from_stored(row["metadata"]),
    )


def _taken(row: asyncpg.Record) -> TakenGroup:
    group_id = from_stored(row["group_id"])
    if row["document"] is None:
        return TakenGroup(group_id=group_id, owner_epoch=row["owner_epoch"], record=None)
    record = GroupRecord(
        group_id=group_id,
        group_type=row["group_type"],
        state=row["state"],
        protocol_type=from_stored(row["protocol_type"]),
        generation_id=row["generation_id"],
        member_count=row["member_count"],
        document=from_stored(row["document"]),
    )
    return TakenGroup(group_id=group_id, owner_epoch=row["owner_epoch"], record=record)
