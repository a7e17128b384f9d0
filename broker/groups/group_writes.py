"""The writes of all groups, one statement at a time; what comes meanwhile goes into the next.

A group's entry holds its latest record, since a later one holds all of an earlier one, and its
offsets merged in the order in which they were committed. So an offset commit costs one statement at
most, is never overtaken by an older one, and a busy broker writes many groups with each statement.

What keeps other brokers, and our own past, from interfering is the owner epoch
(storage/metadata/groups.py):
- A fenced write means that another broker took the group, or that it is gone: nothing was written.
- After MetadataUnavailable nobody knows what happened, or still will. The group's machine is thrown
  away, and whoever uses the group next takes it again, under a greater owner epoch and its row's
  lock: only that makes a write that was given up either visible to it, or harmless for ever. To
  write again under the old epoch could let an old offset overtake a newer one.

A record is made when its statement is: most are superseded while another statement is under way.
What fails for another reason (a bug, or data that the database refuses) costs the groups of its
statement, and a large record has a statement of its own. A row that somebody holds for too long
costs its group: the others are written again, each by a statement of its own.

How much may wait here is bounded by queued.max.request.bytes: a request's frame is counted until
it is answered, and it is answered when it is written.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import structlog

from broker.groups.group_metrics import GroupMetrics
from protocol.ids import Partition
from storage.errors import MetadataUnavailable, RowsHeld
from storage.metadata.groups import CommittedOffset, GroupRecord, GroupStore, GroupWrite

MAX_OFFSETS: Final = 10_000
"""Offsets in one statement, so that nobody's commit waits long for other groups' offsets."""

MAX_DOCUMENT_BYTES: Final = 4 * 1024 * 1024
"""Of all records in one statement, for the same reason."""

LARGE_DOCUMENT_BYTES: Final = 1024 * 1024
"""A record above this goes alone, so that other groups do not depend on what becomes of it."""

log = structlog.get_logger()

MakeRecord = Callable[[], GroupRecord]

Written = asyncio.Future[frozenset[Partition]]
"""Resolves when a write is durable, with those partitions of its statement that do not exist."""


class GroupFenced(Exception):
    """Another broker took the group, or it is gone; nothing was written."""


class WriteFailed(Exception):
    """A bug: the log has it. Nobody knows what was written."""


@dataclass(slots=True, kw_only=True)
class _Entry:
    """What is to be written of one group.

    Attributes:
        record: made by `make_record` when it is needed, which is None then.
    """

    owner_epoch: int
    written: Written
    make_record: MakeRecord | None = None
    record: GroupRecord | None = None
    offsets: dict[Partition, CommittedOffset] = field(default_factory=dict)

    def document_bytes(self) -> int:
        """Make the record; return how large its document is (JSON in ASCII)."""
        if self.make_record is not None:
            self.record, self.make_record = self.make_record(), None
        return 0 if self.record is None else len(self.record.document)


class GroupWrites:
    """One pipeline per broker."""

    def __init__(self, store: GroupStore, metrics: GroupMetrics) -> None:
        self._store = store
        self._metrics = metrics
        self._queued: dict[str, _Entry] = {}
        self._wake = asyncio.Event()

    def save(self, group_id: str, owner_epoch: int, make_record: MakeRecord) -> Written:
        """Write a group's record, in place of one that waits; it is made when its turn comes."""
        entry = self._entry(group_id, owner_epoch)
        entry.make_record = make_record
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
                if taken := self._take():
                    with self._at_the_cost_of(taken):
                        await self._write(taken)

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
        offsets = total_bytes = 0
        for group_id, entry in list(self._queued.items()):
            document_bytes = 0
            with self._at_the_cost_of({group_id: entry}):
                document_bytes = entry.document_bytes()
            if entry.written.done():
                continue
            offsets += len(entry.offsets)
            total_bytes += document_bytes
            is_large = document_bytes > LARGE_DOCUMENT_BYTES
            is_full = is_large or offsets > MAX_OFFSETS or total_bytes > MAX_DOCUMENT_BYTES
            if taken and is_full:
                break
            taken[group_id] = self._queued.pop(group_id)
            if is_large:
                break
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
        except RowsHeld:
            if len(entries) == 1:
                raise
            await self._write_one_by_one(entries)
            return
        for group_id, entry in entries.items():
            if group_id in outcome.fenced:
                entry.written.set_exception(GroupFenced(group_id))
                self._discard_behind(group_id, entry)
            else:
                entry.written.set_result(outcome.unknown)

    async def _write_one_by_one(self, entries: Mapping[str, _Entry]) -> None:
        for group_id, entry in entries.items():
            alone = {group_id: entry}
            with self._at_the_cost_of(alone):
                await self._write(alone)

    @contextmanager
    def _at_the_cost_of(self, entries: Mapping[str, _Entry]) -> Iterator[None]:
        """Let these writes fail with what is done here, and no others."""
        failure: MetadataUnavailable | WriteFailed
        try:
            yield
        except MetadataUnavailable as unavailable:
            failure = unavailable
        except Exception as bug:  # of one request's data; it must not end the writes of all others
            log.exception("bug in a write of groups", group_ids=list(entries)[:10])
            failure = WriteFailed(f"{type(bug).__name__}: {bug}")
        else:
            return
        for group_id, entry in entries.items():
            if not entry.written.done():
                entry.written.set_exception(type(failure)(str(failure)))
            self._discard_behind(group_id, entry)

    def _discard_behind(self, group_id: str, failed: _Entry) -> None:
        """Forget what waits behind a failure, unless the group has been taken again since."""
        queued = self._queued.get(group_id)
        if queued is not None and queued.owner_epoch == failed.owner_epoch:
            self.discard(group_id)


def failure_of(written: asyncio.Future[Any]) -> BaseException | None:
    """Return why a write that has ended did not happen; None if it did."""
    if written.cancelled():
        return asyncio.CancelledError()
    return written.exception()


def resolve_after(answer: asyncio.Future[Any], result: object, written: Written) -> None:
    """Answer after a write that has ended; if it failed, the loss of the group answers."""
    if failure_of(written) is None and not answer.done():
        answer.set_result(result)


def pass_on(answer: asyncio.Future[Any], written: Written) -> None:
    if failure_of(written) is None and not answer.done():
        answer.set_result(written.result())
