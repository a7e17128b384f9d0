"""Which aborted transactions a reader of committed records has to skip (KIP-98).

A reader gets records before a last stable offset, with all aborted transactions that overlap them.
Both come from one snapshot of the partition, (last stable offset, how many aborted transactions
were ever written down): a transaction with records before that offset had ended in that snapshot,
so if it was aborted, it is one of those counted. Whatever is loaded after the snapshot was seen
contains them all. What a load brings beyond the count ended later; open in the snapshot, or not yet
begun, it has its first record at the last stable offset or behind: it overlaps nothing that is
served.

What ended before the log start is forgotten some time after that has moved, so what the store says
is all there was only from the log start of its answer on. Who reads before that is told so: the
records that it was to be given may be of transactions that nobody remembers.

An aborted transaction ends with its marker, and markers come into the log in the order of their
offsets: what is new ends behind all that is known. So an index is brought up to date by asking for
what ends behind its last entry.
"""

import asyncio
from bisect import bisect_left
from typing import Final

from protocol.ids import Partition
from storage.aborted_transaction import AbortedTransaction
from storage.errors import MetadataUnavailable, OffsetOutOfRange
from storage.metadata.transactions import TransactionStore

MAX_KEPT: Final = 2_000  # 0.3 MB
_END: Final = 2**63 - 1


class AbortedIndex:
    """The aborted transactions of one partition that end at some offset or later, up to MAX_KEPT.

    That is where the first reader began: whoever reads at the end needs nothing of the history. For
    one who begins before, all is loaded anew if it is few enough; else such readers ask the store,
    each for its own range.
    """

    def __init__(
        self, store: TransactionStore, partition: Partition, *, max_kept: int = MAX_KEPT
    ) -> None:
        self._store = store
        self._partition = partition
        self._max_kept = max_kept
        self._log_start_offset = 0  # as last heard
        self._worthwhile_from = 0  # too many end behind an offset before it, at least for now
        self._loading: asyncio.Future[MetadataUnavailable | None] | None = None
        self._forget()

    def _forget(self) -> None:
        self._start_offset: int | None = None  # complete for what ends here or later; None: not yet
        self._count = 0  # of the latest snapshot that the index is complete for
        self._entries: list[AbortedTransaction] = []
        self._last_offsets: list[int] = []  # of each entry, ascending
        self._least_first: list[int] = []  # of each entry and all behind it, the least first offset

    def __len__(self) -> int:
        return len(self._entries)

    async def overlapping(
        self, start_offset: int, end_offset: int, *, stable_offset: int, aborted_count: int
    ) -> list[AbortedTransaction]:
        """Return those with records from `start_offset` on and before `end_offset`.

        In the order of their first offsets.

        Args:
            start_offset: where the reader begins.
            end_offset: of what it is given; at most `stable_offset`.
            stable_offset: the last stable offset of a snapshot of the partition.
            aborted_count: of the same snapshot.

        Raises:
            OffsetOutOfRange: the log has come to begin behind `start_offset`.
            UnknownPartition: it is gone.
            MetadataUnavailable: no answer.
        """
        while not self._covers(start_offset, aborted_count):
            if not self._may_cover(start_offset, aborted_count):
                break
            await self._bring_up_to_date(aborted_count, start_offset, stable_offset)
        if self._covers(start_offset, aborted_count):
            found = self._find(start_offset, end_offset)
        else:
            found = await self._ask(start_offset, end_offset, aborted_count)
        return sorted(found, key=lambda one: one.first_offset)

    def _covers(self, start_offset: int, aborted_count: int) -> bool:
        is_within = self._start_offset is not None and start_offset >= self._start_offset
        return is_within and self._count >= aborted_count

    def _may_cover(self, start_offset: int, aborted_count: int) -> bool:
        """Whether a load may make it so."""
        if self._start_offset is None:
            return start_offset >= self._worthwhile_from
        if start_offset >= self._start_offset:
            return True
        are_few = max(self._count, aborted_count) <= self._max_kept
        return are_few and start_offset >= self._log_start_offset

    def _find(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        found = []
        at = bisect_left(self._last_offsets, start_offset)
        while at < len(self._entries) and self._least_first[at] < end_offset:
            if self._entries[at].first_offset < end_offset:
                found.append(self._entries[at])
            at += 1
        return found

    async def _ask(
        self, start_offset: int, end_offset: int, aborted_count: int
    ) -> list[AbortedTransaction]:
        """Read a range page by page, past the index."""
        found: list[AbortedTransaction] = []
        while True:
            page = await self._store.aborted_transactions(
                self._partition,
                start_offset,
                end_offset,
                self._max_kept,
                aborted_count=aborted_count,
            )
            if start_offset < page.log_start_offset:
                raise OffsetOutOfRange(f"the log begins at {page.log_start_offset}")
            found += page.transactions
            if len(page.transactions) < self._max_kept:
                return found
            start_offset = found[-1].last_offset + 1

    async def _bring_up_to_date(self, count: int, start_offset: int, stable_offset: int) -> None:
        """Load what is new, or wait for another reader who does; then look again."""
        if self._loading is not None:
            failure = await asyncio.shield(self._loading)  # it is everybody's: not to be cancelled
            if failure is not None:
                raise MetadataUnavailable(str(failure)) from failure
            return
        failure = None
        self._loading = asyncio.get_running_loop().create_future()
        try:
            await self._load(count, start_offset, stable_offset)
        except MetadataUnavailable as unavailable:
            failure = unavailable
            raise
        finally:
            self._loading.set_result(failure)  # after a cancellation the others load by themselves
            self._loading = None

    async def _load(self, count: int, start_offset: int, stable_offset: int) -> None:
        count = max(count, self._count)
        begin = self._start_offset
        is_anew = begin is None or start_offset < begin
        if begin is None or is_anew:
            begin = start_offset
        last_offset = begin - 1 if is_anew or not self._entries else self._last_offsets[-1]
        page = await self._store.aborted_transactions(
            self._partition, last_offset + 1, _END, self._max_kept + 1, aborted_count=count
        )
        new = page.transactions
        if is_anew or len(new) > self._max_kept:
            self._forget()
        if len(new) > self._max_kept:
            # A reader that walks towards the end tries again when half of its way is done.
            self._worthwhile_from = (start_offset + stable_offset) // 2 + 1
            return
        self._log_start_offset = page.log_start_offset
        self._start_offset = max(begin, page.log_start_offset)
        for one in new:
            self._append(one)
        self._count = count
        if len(self._entries) > self._max_kept:
            self._drop_oldest(len(self._entries) - self._max_kept // 2)

    def _append(self, one: AbortedTransaction) -> None:
        at = len(self._entries)
        self._entries.append(one)
        self._last_offsets.append(one.last_offset)
        self._least_first.append(one.first_offset)
        while at and self._least_first[at - 1] > one.first_offset:
            at -= 1
            self._least_first[at] = one.first_offset

    def _drop_oldest(self, dropped: int) -> None:
        self._start_offset = self._last_offsets[dropped - 1] + 1
        for kept in (self._entries, self._last_offsets, self._least_first):
            del kept[:dropped]
