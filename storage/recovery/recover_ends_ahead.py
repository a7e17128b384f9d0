"""Whether the end of an open transaction is told further on in its partition; pure.

A client without KIP-890 has one epoch for all of its transactions, so a marker may be that of a
later one. It is that of this one only if the producer writes nothing in between.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping
from enum import Enum
from operator import itemgetter
from typing import Final

from protocol.control_batch import EndMarker
from storage.recovery.recover_producers import OpenTransaction
from storage.recovery.recover_runs import PlacedRun

_OFFSET: Final = itemgetter(0)


class End(Enum):
    """What is known of the end of a transaction."""

    UNTOLD = "untold"
    PASSED = "passed"  # untold, but it was before the producer's next epoch
    DOUBTFUL = "doubtful"  # told, unless what the producer writes before is another transaction
    TOLD = "told"


class EndsAhead:
    """What comes of the transactional producers of a partition.

    Args:
        endings: of transactions, by the offsets of their markers.
        runs: of batches that have their places.
    """

    def __init__(self, endings: Mapping[int, EndMarker], runs: Iterable[PlacedRun]) -> None:
        found: dict[int, list[tuple[int, int, bool]]] = defaultdict(list)
        for offset, marker in endings.items():
            found[marker.producer_id].append((offset, marker.producer_epoch, True))
        for run in runs:
            for batch, offset in run.placed():
                if batch.transactional:
                    found[batch.producer_id].append((offset, batch.producer_epoch, False))
        self._ahead = {producer_id: sorted(events) for producer_id, events in found.items()}

    def end_of(self, one: OpenTransaction, offset: int) -> End:
        """Return what is known of the end of a transaction.

        Args:
            one: open at that offset.
            offset: from which on it may have ended.
        """
        events = self._ahead.get(one.producer_id, [])
        goes_on = False
        for _, epoch, is_end in events[bisect_left(events, offset, key=_OFFSET) :]:
            if not is_end and epoch > one.producer_epoch:
                return End.PASSED
            if not is_end:
                goes_on = True
            elif one.producer_epoch <= epoch <= one.producer_epoch + 1:  # the next: KIP-890
                return End.DOUBTFUL if goes_on else End.TOLD
        return End.UNTOLD
