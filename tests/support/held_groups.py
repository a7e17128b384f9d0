"""The in-memory store of groups, at a test's mercy: calls are held, refused and counted."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from random import Random
from uuid import UUID

from protocol.ids import Partition
from storage.errors import MetadataUnavailable, NothingWritten, RowsHeld
from storage.metadata.groups import CommittedOffset, GroupWrite, TakenGroup, WriteOutcome
from storage.metadata.transactions import TransactionOffsets, TransactionOffsetsOutcome
from tests.support.fakes.metadata import MemoryMetadata


class HeldGroups(MemoryMetadata):
    """Attributes:
    writes: every write_groups call, as it came.
    takes: the group ids of every take_groups call.
    commits: every write_transaction_offsets call, as it came.
    late_deletes: every delete_offsets call that got no answer: the server may still do it.
    held_rows: groups whose rows somebody holds for longer than who takes them waits.
    """

    def __init__(self) -> None:
        super().__init__(Random(1))
        self.writes: list[list[GroupWrite]] = []
        self.takes: list[list[str]] = []
        self.commits: list[TransactionOffsets] = []
        self._open = asyncio.Event()
        self._open.set()
        self._open_to_deletes = asyncio.Event()
        self._open_to_deletes.set()
        self._away = False
        self._locked = False
        self.held_rows: set[str] = set()
        self.late_deletes: list[Callable[[], Awaitable[bool]]] = []

    def hold(self) -> None:
        """Let calls wait from now on."""
        self._open.clear()

    def release(self) -> None:
        self._open.set()

    def go_away(self) -> None:
        """Give no answer to any call from now on, not to those that are held, either."""
        self._away = True

    def come_back(self) -> None:
        self._away = False

    def hold_deletes(self) -> None:
        """Let those calls wait from now on that delete offsets, and only those."""
        self._open_to_deletes.clear()

    def release_deletes(self) -> None:
        self._open_to_deletes.set()

    def lock(self) -> None:
        """Refuse offsets of transactions, and to delete any, as when rows are held for too long."""
        self._locked = True

    async def write_groups(self, writes: Sequence[GroupWrite]) -> WriteOutcome:
        self.writes.append(list(writes))
        await self._answerable()
        return await super().write_groups(writes)

    async def take_groups(self, group_ids: Sequence[str], *, create: bool) -> list[TakenGroup]:
        self.takes.append(list(group_ids))
        await self._answerable()
        if self.held_rows.intersection(group_ids):
            raise RowsHeld("held")
        return await super().take_groups(group_ids, create=create)

    async def write_transaction_offsets(
        self, offsets: TransactionOffsets
    ) -> TransactionOffsetsOutcome:
        self.commits.append(offsets)
        await self._answerable()
        if self._locked:
            raise NothingWritten("locked")
        return await super().write_transaction_offsets(offsets)

    async def delete_offsets(
        self, group_id: str, owner_epoch: int, partitions: Sequence[Partition]
    ) -> bool:
        delete = partial(super().delete_offsets, group_id, owner_epoch, partitions)
        await self._open_to_deletes.wait()
        if self._away:
            self.late_deletes.append(delete)
            raise MetadataUnavailable("away")
        if self._locked:
            raise NothingWritten("locked")
        return await delete()

    async def take_elsewhere(self, group_id: str) -> int:
        """Do what another broker does; return its owner epoch."""
        (taken,) = await super().take_groups([group_id], create=False)
        return taken.owner_epoch

    async def offsets(self, group_id: str) -> dict[int, int]:
        """Return what a group committed, by partition of its only topic."""
        found = await self.committed_offsets(group_id, None)
        return {partition.index: committed.offset for partition, committed in found.offsets.items()}

    async def topic(self, partitions: int = 3) -> UUID:
        """Create a topic; return its id."""
        created = await self.create_topic(
            f"topic-{len(self._topics)}",
            partition_count=partitions,
            replication_factor=1,
            configs={},
        )
        return created.topic_id

    async def _answerable(self) -> None:
        await self._open.wait()
        if self._away:
            raise MetadataUnavailable("away")


def at(topic_id: UUID, **offsets: int) -> dict[Partition, CommittedOffset]:
    """Return what to commit: `at(topic_id, p0=5)` is offset 5 of partition 0."""
    return {
        Partition(topic_id, int(name[1:])): CommittedOffset(offset=offset)
        for name, offset in offsets.items()
    }
