"""The metadata port's consumer groups, in memory."""

import itertools
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from protocol.ids import Partition
from storage.metadata.groups import (
    CommittedOffset,
    CommittedOffsets,
    GroupListing,
    GroupRecord,
    GroupWrite,
    TakenGroup,
    WriteOutcome,
)
from storage.metadata.topics import Topic


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """An offset of a group, when it was written, and after which others."""

    offset: CommittedOffset
    at_ms: int
    order: int


@dataclass(slots=True)
class _Group:
    owner_epoch: int
    touched_ms: int
    record: GroupRecord | None = None
    empty_since_ms: int | None = None
    written: dict[Partition, _Written] = field(default_factory=dict)

    @property
    def offsets(self) -> dict[Partition, CommittedOffset]:
        return {partition: written.offset for partition, written in self.written.items()}

    def save(self, record: GroupRecord, now_ms: int) -> None:
        self.record = record
        self.touched_ms = now_ms
        if record.member_count:
            self.empty_since_ms = None
        elif self.empty_since_ms is None:
            self.empty_since_ms = now_ms

    def commit(self, partition: Partition, written: _Written) -> None:
        """Take what was written last, whatever is committed last."""
        if partition not in self.written or self.written[partition].order < written.order:
            self.written[partition] = written

    def forget(self, partitions: Sequence[Partition]) -> None:
        _forget(self.written, partitions)

    def expired(self, oldest_ms: int, pending: Collection[Partition]) -> list[Partition]:
        """Return the partitions whose offsets have had their time, and get no newer ones."""
        empty_ms = self.empty_since_ms
        if self.record is not None and (empty_ms is None or empty_ms >= oldest_ms):
            return []
        return self.old_offsets(oldest_ms, pending)

    def old_offsets(self, oldest_ms: int, pending: Collection[Partition]) -> list[Partition]:
        """Return the partitions whose offsets are old, and get no newer ones."""
        return [
            partition
            for partition, written in self.written.items()
            if written.at_ms < oldest_ms and partition not in pending
        ]

    def is_over(self, oldest_ms: int) -> bool:
        over = self.record is None or self.record.state == "Empty"
        return over and not self.written and self.touched_ms < oldest_ms


class MemoryGroups:
    """Groups; see GroupStore for what each method promises.

    Args:
        now_ms: the database's clock.
    """

    _partitions: Mapping[Partition, object]  # all that exist
    _topics: Mapping[UUID, Topic]

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._last_owner_epoch = 0
        self._groups: dict[str, _Group] = {}
        # what open transactions will commit, by transactional id and group
        self._pending: dict[tuple[str, str], dict[Partition, _Written]] = {}
        self._order = itertools.count()

    async def take_groups(self, group_ids: Sequence[str], *, create: bool) -> list[TakenGroup]:
        taken = []
        for group_id in sorted(group_ids):
            if group_id not in self._groups and not create:
                continue
            self._last_owner_epoch += 1
            group = self._groups.setdefault(group_id, _Group(0, 0))
            group.owner_epoch = self._last_owner_epoch
            if create:
                group.touched_ms = self._now_ms()
            taken.append(
                TakenGroup(group_id=group_id, owner_epoch=group.owner_epoch, record=group.record)
            )
        return taken

    async def write_groups(self, writes: Sequence[GroupWrite]) -> WriteOutcome:
        fenced: set[str] = set()
        unknown: set[Partition] = set()
        for write in writes:
            group = self._owned(write.group_id, write.owner_epoch)
            if group is None:
                fenced.add(write.group_id)
                continue
            if write.record is not None:
                group.save(write.record, self._now_ms())
            for partition, committed in write.offsets.items():
                if partition in self._partitions:
                    group.commit(partition, self._written(committed))
                else:
                    unknown.add(partition)
        return WriteOutcome(fenced=frozenset(fenced), unknown=frozenset(unknown))

    async def committed_offsets(
        self, group_id: str, partitions: Sequence[Partition] | None
    ) -> CommittedOffsets:
        group = self._groups.get(group_id)
        offsets = group.offsets if group else {}
        unstable = {partition for pending in self._pending_of(group_id) for partition in pending}
        if partitions is None:
            return CommittedOffsets(offsets=dict(offsets), unstable=frozenset(unstable))
        return CommittedOffsets(
            offsets={each: offsets[each] for each in partitions if each in offsets},
            unstable=frozenset(unstable.intersection(partitions)),
        )

    async def list_groups(self) -> AsyncIterator[GroupListing]:
        for group_id, group in sorted(self._groups.items()):
            yield _listing(group_id, group.record)

    async def has_group(self, group_id: str) -> bool:
        return group_id in self._groups

    async def delete_groups(self, owned: Mapping[str, int]) -> dict[str, bool]:
        return {each: self._delete_group(each, owner_epoch) for each, owner_epoch in owned.items()}

    def _delete_group(self, group_id: str, owner_epoch: int) -> bool:
        if self._owned(group_id, owner_epoch) is None:
            return False
        del self._groups[group_id]
        for pending in self._pending_of(group_id):
            pending.clear()
        return True

    async def delete_offsets(
        self, group_id: str, owner_epoch: int, partitions: Sequence[Partition]
    ) -> bool:
        group = self._owned(group_id, owner_epoch)
        if group is None:
            return False
        group.forget(partitions)
        group.touched_ms = self._now_ms()
        for pending in self._pending_of(group_id):
            _forget(pending, partitions)
        return True

    async def expire_offsets(self, retention_ms: int) -> int:
        oldest_ms = self._now_ms() - retention_ms
        gone = 0
        for group_id, group in list(self._groups.items()):
            pending = {each for offsets in self._pending_of(group_id) for each in offsets}
            expired = group.expired(oldest_ms, pending)
            newest_ms = max((group.written[each].at_ms for each in expired), default=0)
            group.touched_ms = max(group.touched_ms, newest_ms)
            group.forget(expired)
            gone += len(expired)
            if group.is_over(oldest_ms) and not pending:
                del self._groups[group_id]
                gone += 1
        return gone

    async def expire_left_topics(
        self, group_id: str, owner_epoch: int, subscribed: Collection[str], retention_ms: int
    ) -> int:
        group = self._owned(group_id, owner_epoch)
        if group is None:
            return 0
        oldest_ms = self._now_ms() - retention_ms
        pending = {each for offsets in self._pending_of(group_id) for each in offsets}
        left = [
            each
            for each in group.old_offsets(oldest_ms, pending)
            if self._topics[each.topic_id].name not in subscribed
        ]
        group.forget(left)
        return len(left)

    def _keep_offsets(
        self, transactional_id: str, group_id: str, offsets: Mapping[Partition, CommittedOffset]
    ) -> frozenset[Partition]:
        """Keep what a transaction will commit; return the partitions that do not exist."""
        known = {
            partition: self._written(offset)
            for partition, offset in offsets.items()
            if partition in self._partitions
        }
        self._pending.setdefault((transactional_id, group_id), {}).update(known)
        self._groups[group_id].touched_ms = self._now_ms()
        return frozenset(offsets.keys() - known.keys())

    def _settle_offsets(self, transactional_id: str, *, committed: bool) -> None:
        """Commit what a transaction has kept, or forget it."""
        mine = [key for key in self._pending if key[0] == transactional_id]
        for key in mine:
            pending = self._pending.pop(key)
            group = self._groups.get(key[1])
            if committed and group is not None:
                group.touched_ms = self._now_ms()
                for partition, written in pending.items():
                    group.commit(partition, written)

    def _written(self, offset: CommittedOffset) -> _Written:
        return _Written(offset=offset, at_ms=self._now_ms(), order=next(self._order))

    def _pending_of(self, group_id: str) -> list[dict[Partition, _Written]]:
        """Return what open transactions will commit in a group."""
        return [pending for key, pending in self._pending.items() if key[1] == group_id]

    def _forget_offsets(self, topic_id: UUID) -> None:
        for group_id, group in self._groups.items():
            pending = self._pending_of(group_id)
            partitions = {partition for kept in (group.written, *pending) for partition in kept}
            lost = [partition for partition in partitions if partition.topic_id == topic_id]
            if lost:
                group.forget(lost)
                group.touched_ms = self._now_ms()
                for kept in pending:
                    _forget(kept, lost)

    def _owned(self, group_id: str, owner_epoch: int) -> _Group | None:
        group = self._groups.get(group_id)
        return group if group is not None and group.owner_epoch == owner_epoch else None


def _forget(kept: dict[Partition, Any], partitions: Sequence[Partition]) -> None:
    for partition in partitions:
        kept.pop(partition, None)


def _listing(group_id: str, record: GroupRecord | None) -> GroupListing:
    return GroupListing(
        group_id=group_id,
        group_type=record.group_type if record else "Classic",
        state=record.state if record else "Empty",
        protocol_type=record.protocol_type if record else "",
        member_count=record.member_count if record else 0,
    )
