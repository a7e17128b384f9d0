"""Which batches belong to aborted transactions, and which markers nothing depends on any more.

As in Apache Kafka, a marker stays until all batches of its transaction are gone, and for another
delete.retention.ms. The marker of an aborted transaction stays as long as the transaction is one of
the partition's aborted ones, that is until the log begins behind it: readers of committed records
are told of the range, skip what the producer wrote from its begin on, and only go on at the marker.
"""

from bisect import bisect_left
from collections.abc import Sequence

from protocol.batch import BatchHeader
from storage.aborted_transaction import AbortedTransaction


class SeenTransactions:
    """What one pass over a log, from its start on, knows of transactions."""

    def __init__(self) -> None:
        self._with_batches: set[int] = set()  # producers, since their last markers
        self._last_offsets: dict[int, list[int]] = {}
        self._first_offsets: dict[int, list[int]] = {}

    def expect(self, aborted: Sequence[AbortedTransaction]) -> None:
        """Replace the aborted transactions by those of the offsets that come next."""
        self._last_offsets = {}
        self._first_offsets = {}
        for one in sorted(aborted, key=lambda one: one.last_offset):
            self._last_offsets.setdefault(one.producer_id, []).append(one.last_offset)
            self._first_offsets.setdefault(one.producer_id, []).append(one.first_offset)

    def is_aborted(self, header: BatchHeader) -> bool:
        """Return whether a batch, of data or a marker, belongs to an aborted transaction."""
        last_offsets = self._last_offsets.get(header.producer_id)
        if last_offsets is None or not header.is_transactional:
            return False
        at = bisect_left(last_offsets, header.base_offset)
        if at == len(last_offsets):
            return False
        return self._first_offsets[header.producer_id][at] <= header.base_offset

    def see(self, header: BatchHeader) -> None:
        """Take note of a data batch."""
        if header.is_transactional:
            self._with_batches.add(header.producer_id)

    def end(self, header: BatchHeader) -> bool:
        """Take note of a marker; return whether anything depends on it."""
        has_batches = header.producer_id in self._with_batches
        self._with_batches.discard(header.producer_id)
        return has_batches or self.is_aborted(header)
