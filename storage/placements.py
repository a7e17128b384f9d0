"""What a writer's objects tell of the offsets that its earlier ones were given (wal_index.py).

The next object tells it. But that may be removed while an object before it is still needed: all of
its own batches are built, and a partition that is written rarely was not among them. So the
next object with batches of the same partition tells it again: it is needed for longer, if they come
into the log.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from storage.metadata.port import BatchOutcome
from storage.partition_log import PartitionLog, Places
from storage.wal_index import NOT_APPENDED

Told = Mapping[PartitionLog, tuple[Places, ...]]


class _Batch(Protocol):
    @property
    def log(self) -> PartitionLog: ...


class _Seal(Protocol):
    @property
    def sequence(self) -> int: ...
    @property
    def told(self) -> Told: ...


class Placements:
    """What is to be told by the objects of one writer.

    Its loops call nothing that is written in Python: they go through every partition of an object.
    """

    def __init__(self) -> None:
        self._new: dict[PartitionLog, object] = {}  # in the order of their news

    def take(self, batches: Sequence[_Batch]) -> Told:
        """Return what the next object tells, which has these batches."""
        told: dict[PartitionLog, tuple[Places, ...]] = {}
        for log in self._new:
            if log.untold and not log.removed:
                told[log] = log.untold
        self._new = {}
        for batch in batches:
            log = batch.log
            if log.untold:
                told[log] = log.untold
                log.untold = ()
        return told

    def answered(
        self, seal: _Seal, batches: Sequence[_Batch], outcomes: Sequence[BatchOutcome]
    ) -> None:
        """Take note of what became of an object's batches.

        Args:
            seal: of the object.
            batches: in their order there, so that those of a partition stand together.
            outcomes: of each batch.
        """
        answered: dict[PartitionLog, list[int]] = {}
        log: PartitionLog | None = None
        offsets: list[int] = []
        for batch, outcome in zip(batches, outcomes, strict=True):
            if batch.log is not log:
                log, offsets = batch.log, []
                answered[log] = offsets
            is_appended = outcome.refusal is None and not outcome.duplicate
            offsets += (outcome.base_offset if is_appended else NOT_APPENDED,)
        for log, offsets in answered.items():
            if NOT_APPENDED in offsets and _is_refused(offsets):
                told = seal.told.get(log, ())
                log.untold = (*[one for one in told if not _is_refused(one[1])], *log.untold)
            log.untold = (*log.untold, (seal.sequence, offsets))
        self._new |= answered


def _is_refused(offsets: Sequence[int]) -> bool:
    return max(offsets) == NOT_APPENDED
