"""The indexes of aborted transactions of all partitions, in a bounded amount of memory."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from protocol.ids import Partition
from storage.aborted import MAX_KEPT, AbortedIndex
from storage.aborted_transaction import AbortedTransaction
from storage.metadata.transactions import TransactionStore

MAX_SIZE: Final = 200_000  # 36 MB
EMPTY_SIZE: Final = 5
"""Of an index without a transaction, each of which counts for one."""


@dataclass(slots=True)
class _Kept:
    index: AbortedIndex
    size: int = 0


class AbortedIndexes:
    """Those of the partitions that were read last.

    The others load what they need when they are read again; those of deleted topics go by and by.
    Who waits for an index that is let go of meanwhile has it until there is an answer.
    """

    def __init__(
        self, store: TransactionStore, *, max_kept: int = MAX_KEPT, max_size: int = MAX_SIZE
    ) -> None:
        self._store = store
        self._max_kept = max_kept
        self._max_size = max_size
        self._kept: OrderedDict[Partition, _Kept] = OrderedDict()  # last the one that was read last
        self._size = 0

    async def overlapping(
        self,
        partition: Partition,
        start_offset: int,
        end_offset: int,
        *,
        stable_offset: int,
        aborted_count: int,
    ) -> list[AbortedTransaction]:
        """Return what a reader of committed records skips (see AbortedIndex.overlapping).

        Raises:
            OffsetOutOfRange, UnknownPartition, MetadataUnavailable: as that does.
        """
        kept = self._kept.get(partition)
        if kept is None:
            index = AbortedIndex(self._store, partition, max_kept=self._max_kept)
            kept = self._kept[partition] = _Kept(index)
            self._weigh(kept)
        self._kept.move_to_end(partition)
        try:
            return await kept.index.overlapping(
                start_offset, end_offset, stable_offset=stable_offset, aborted_count=aborted_count
            )
        finally:
            if self._kept.get(partition) is kept:
                self._weigh(kept)

    def _weigh(self, kept: _Kept) -> None:
        size = EMPTY_SIZE + len(kept.index)
        self._size += size - kept.size
        kept.size = size
        while self._size > self._max_size:
            _, oldest = self._kept.popitem(last=False)
            self._size -= oldest.size
