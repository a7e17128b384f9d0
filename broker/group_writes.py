"""The writes of all groups, one statement at a time; what comes meanwhile goes into the next.

A group's entry holds its latest record, since a later one holds all of an earlier one, and its
offsets merged in the order in which they were committed. So an offset commit costs one statement at
most, is never overtaken by an older one, and a busy broker writes many groups with each statement.

What keeps other brokers, and our own past, from interfering is the owner epoch (storage/groups.py):
- A fenced write means that another broker took the group, or that it is gone: nothing was written.
- After MetadataUnavailable nobody knows what happened, or still will. The group's machine is thrown
  away, and whoever uses the group next takes it again, under a greater owner epoch and its row's
  lock: only that makes a write that was given up either visible to it, or harmless for ever. To
  write again under the old epoch could let an old offset overtake a newer one.

How much may wait here is bounded by queued.max.request.bytes: a request's frame is counted until
it is answered, and it is answered when it is written.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from broker.metrics import GroupMetrics
from protocol.ids import Partition
from storage.errors import MetadataUnavailable
from storage.groups import CommittedOffset, GroupRecord, GroupStore, GroupWrite

MAX_OFFSETS: Final = 10_000
"""Offsets in one statement, so that nobody's commit waits long for other groups' offsets."""

Written = asyncio.Future[frozenset[Partition]]
"""Resolves when a write is durable, with those partitions of its statement that do not exist."""


class GroupFenced(Exception):
    """Another broker took the group, or it is gone; nothing was written."""


@dataclass(slots=True, kw_only=True)
class _Entry:
    """What is to be written of one group."""

    owner_epoch: int
    written: Written
    record: GroupRecord | None = None
    offsets: dict[Partition, CommittedOffset] = field(default_factory=dict)


class GroupWrites:
    """One pipeline per broker."""

    def __init__(self, store: GroupStore, metrics: GroupMetrics) -> None:
        self._store = store
        self._metrics = metrics
        self._queued: dict[str, _Entry] = {}
        self._wake = asyncio.Event()

    def save(self, owner_epoch: int, record: GroupRecord) -> Written:
        """Write a group's record, in place of one that waits."""
        entry = self._entry(record.group_id, owner_epoch)
        entry.record = record
        return entry.written

    def commit(
        self, group_id: str, owner_epoch: int, offsets: Mapping[Partition, CommittedOffset]
    ) -> Written:
        """Write offsets of a group, over those that wait."""
        entry = self._entry(group_id, owner_epoch)
        entry.offsets.update(offsets)
        return entry.written

    def discard(self, group_id: str) -> None:
        """Forget what waits for this group; what is under way goes on."""
        entry = self._queued.pop(group_id, None)
        if entry is not None:
            entry.written.cancel()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._queued:
                await self._write(self._take())

    def _entry(self, group_id: str, owner_epoch: int) -> _Entry:
        entry = self._queued.get(group_id)
        if entry is None:
            written: Written = asyncio.get_running_loop().create_future()
            entry = self._queued[group_id] = _Entry(owner_epoch=owner_epoch, written=written)
            self._wake.set()
        assert entry.owner_epoch == owner_epoch  # what waits is discarded with its machine
        return entry

    def _take(self) -> dict[str, _Entry]:
        """Remove and return what goes into the next statement: those who waited longest."""
        taken: dict[str, _Entry] = {}
        offsets = 0
        for group_id, entry in self._queued.items():
            offsets += len(entry.offsets)
            if taken and offsets > MAX_OFFSETS:
                break
            taken[group_id] = entry
        for group_id in taken:
            del self._queued[group_id]
        return taken

    async def _write(self, entries: Mapping[str, _Entry]) -> None:
        writes = [
            GroupWrite(
                group_id=group_id,
                owner_epoch=entry.owner_epoch,
                record=entry.record,
                offsets=entry.offsets,
            )
            for group_id, entry in entries.items()
        ]
        self._metrics.writes.inc()
        try:
            outcome = await self._store.write_groups(writes)
        except MetadataUnavailable as unavailable:
            for group_id, entry in entries.items():
                entry.written.set_exception(MetadataUnavailable(str(unavailable)))
                self.discard(group_id)
            return
        for group_id, entry in entries.items():
            if group_id in outcome.fenced:
                entry.written.set_exception(GroupFenced(group_id))
                self.discard(group_id)
            else:
                entry.written.set_result(outcome.unknown)


def failure_of(written: Written) -> BaseException | None:
    """Return why a write that has ended did not happen; None if it did."""
    if written.cancelled():
        return asyncio.CancelledError()
    return written.exception()
