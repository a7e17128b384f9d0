"""Offsets that groups commit in transactions (KIP-447), on their way to Postgres.

Each has statements of its own, beside those of group_writes.py: it may have to wait for the end of
another statement of its transaction, and no other group's offsets shall wait with it.

A member that was shut out of its group may have one under way that was begun before. Whoever owns
its partitions next must find what that writes, or be sure that it never will be written: else both
read on from the same offset, and both transactions are committed. So OffsetFetch waits for what was
begun before it; and if nobody knows what became of that, the group is taken again, under a greater
owner epoch, before anybody is told offsets of it.
"""

import asyncio
from dataclasses import replace
from typing import Final

from broker.groups.group_writes import failure_of
from storage.errors import MetadataUnavailable, NothingWritten
from storage.metadata.transactions import (
    TransactionOffsets,
    TransactionOffsetsOutcome,
    TransactionStore,
)

NOBODY: Final = -1
"""An owner epoch that no group is taken with."""

Committing = asyncio.Task[TransactionOffsetsOutcome]
"""Ends when the write has, or with MetadataUnavailable when nobody knows whether it has."""


class TransactionalCommits:
    """The writes of one broker that are under way."""

    def __init__(self, store: TransactionStore) -> None:
        self._store = store
        self._under_way: dict[Committing, TransactionOffsets] = {}

    def write(self, offsets: TransactionOffsets) -> Committing:
        """Begin to write; whoever asked for it may go away meanwhile."""
        writing = asyncio.get_running_loop().create_task(
            self._store.write_transaction_offsets(offsets)
        )
        self._under_way[writing] = offsets
        writing.add_done_callback(self._under_way.pop)
        return writing

    async def judge(self, to_nobody: TransactionOffsets) -> TransactionOffsetsOutcome:
        """Return what is wrong with a commit before its group is looked at, else GROUP_FENCED.

        Nothing is written, as the group is never NOBODY's.

        Raises:
            MetadataUnavailable: no answer.
        """
        assert to_nobody.owner_epoch == NOBODY
        return await self._store.write_transaction_offsets(replace(to_nobody, offsets={}))

    def under_way(self, group_id: str, owner_epoch: int | None = None) -> list[Committing]:
        """Return the writes of a group that have not ended; of one owner epoch, or of all."""
        return [
            writing
            for writing, offsets in self._under_way.items()
            if offsets.group_id == group_id and owner_epoch in {None, offsets.owner_epoch}
        ]

    async def settled(self, group_id: str) -> None:
        """Wait for the writes of a group that are under way.

        Raises:
            MetadataUnavailable: nobody knows what became of one of them.
        """
        writes = self.under_way(group_id)
        if not writes:
            return
        await asyncio.wait(writes)
        failures = [
            failure
            for each in writes
            if (failure := failure_of(each)) is not None and not isinstance(failure, NothingWritten)
        ]
        if failures:
            raise MetadataUnavailable(f"an offset commit failed: {failures[0]}")

    def close(self) -> None:
        """Give up what is under way."""
        for writing in self._under_way:
            writing.cancel()
