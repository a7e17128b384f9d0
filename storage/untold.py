"""What a writer's objects tell of what only the metadata knows (wal_index.py).

It is where the batches of its earlier objects are, and how transactions ended. The next object
tells it. But that may be removed while an object before it is still needed: all of its own batches
are built, and a partition that is written rarely was not among them. So the next object with
batches of the same partition tells it again: it is needed for longer, if they come into the log.

If none comes soon, an object without batches tells it: QUIET_S after it was known if no object told
it yet, AGAIN_S if one did, before that can be removed (`upkeep.delete_delay_ms`). No row of the
index names an object without batches, so it stays as long as an upload that nobody commits
(`upkeep.abandoned_ms`): by then all of it is built (`upkeep.segment_age_ms`). While batches are
where their own objects expect them, and no transactions end, none is needed.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Final, NamedTuple, Protocol

from protocol.control_batch import EndMarker
from protocol.ids import Partition
from storage.metadata.port import BatchOutcome
from storage.partition_log import PartitionLog, Places
from storage.wal_index import NOT_APPENDED

QUIET_S: Final = 3.0
AGAIN_S: Final = 30.0
MOST_ENDINGS: Final = 4096
"""So many more are told at once: an object of them takes the event loop 4 ms."""

MOST_KEPT: Final = 16_384
"""Of endings. While the store is away others are not told: transactions go on without it."""

_LOG: Final = attrgetter("log")


class Ending(NamedTuple):
    """The end of a transaction in a partition. Attributes: offset is that of the marker."""

    offset: int
    marker: EndMarker


Told = tuple[Mapping[PartitionLog, tuple[Places, ...]], Mapping[Partition, Sequence[Ending]]]
"""What an object tells: where batches of earlier ones are, and how transactions ended."""

NOTHING: Final[Told] = ({}, {})


class _Batch(Protocol):
    @property
    def log(self) -> PartitionLog: ...
    @property
    def expected_offset(self) -> int: ...


class _Seal(Protocol):
    @property
    def sequence(self) -> int: ...
    @property
    def told(self) -> Told: ...


class Untold:
    """What is to be told by the objects of one writer.

    Its loops call nothing that is written in Python: they go through every partition of an object.

    Args:
        clock: monotonic seconds.

    Attributes:
        since_s: since when something is known of a partition that none of its own objects tells,
            the oldest first: by its log that of batches, by itself that of transactions.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.since_s: dict[PartitionLog | Partition, float] = {}
        self._clock = clock
        self._new_since_s: float | None = None  # what no object tells at all
        self._new: dict[PartitionLog, object] = {}  # in the order of their news
        self._new_endings: dict[Partition, list[Ending]] = {}
        self._endings: dict[Partition, list[Ending]] = {}  # told by an object of other partitions
        self._kept = 0  # endings, of both

    def take(self, batches: Sequence[_Batch]) -> Told:
        """Return what the next object tells, which has these batches."""
        places: dict[PartitionLog, tuple[Places, ...]] = {}
        for log in self._new:
            if log.untold and not log.removed:
                places[log] = log.untold
        self._new = {}
        self._new_since_s = None
        for batch in batches:
            log = batch.log
            if log.untold:
                places[log] = log.untold
                log.untold = ()
        return places, self._take_endings(batches) if self.since_s else {}

    def take_all(self) -> Told:
        """Return what an object tells that has no batches."""
        logs = [log for log in self.since_s if isinstance(log, PartitionLog) and not log.removed]
        places = {log: log.untold for log in logs if log.untold}
        for log in places:
            log.untold = ()
            self._new.pop(log, None)
        endings = self._endings
        for partition, ended in self._new_endings.items():
            endings.setdefault(partition, []).extend(ended)
        self._endings, self._new_endings, self.since_s = {}, {}, {}
        self._new_since_s = None
        self._kept = 0
        return places, endings

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
        unexpected: dict[PartitionLog, object] = {}
        log: PartitionLog | None = None
        offsets: list[int] = []
        for batch, outcome in zip(batches, outcomes, strict=True):
            if batch.log is not log:
                log, offsets = batch.log, []
                answered[log] = offsets
            is_appended = outcome.refusal is None and not outcome.duplicate
            offset = outcome.base_offset if is_appended else NOT_APPENDED
            offsets += (offset,)
            if offset != batch.expected_offset or offset == NOT_APPENDED:
                unexpected[log] = None
        for log, offsets in answered.items():
            if NOT_APPENDED in offsets and _is_refused(offsets):
                self._tell_again(log, seal.told)
            log.untold = (*log.untold, (seal.sequence, offsets))
        self._new |= answered
        if unexpected:
            self._wait(unexpected)

    def lost(self, seal: _Seal, batches: Sequence[_Batch]) -> None:
        """Take note that nobody knows what became of an object's batches; it may be removed soon.

        Args:
            seal: of the object.
            batches: that it has.
        """
        for log in dict.fromkeys(map(_LOG, batches)):
            self._tell_again(log, seal.told)

    def ended(self, marker: EndMarker, offsets: Mapping[Partition, int]) -> None:
        """Take note of the end of a transaction.

        Args:
            marker: that was written.
            offsets: of the marker in each partition of the transaction.
        """
        if self._kept >= MOST_KEPT:
            return
        self._kept += len(offsets)
        for partition, offset in offsets.items():
            self._new_endings.setdefault(partition, []).append(Ending(offset, marker))
        self._wait(offsets)

    def wait_s(self) -> float | None:
        """Return when something needs an object without batches, in seconds; None: nothing does."""
        if not self.since_s:
            return None
        if self._kept > MOST_ENDINGS:
            return 0.0
        due_s = next(iter(self.since_s.values())) + AGAIN_S
        if self._new_since_s is not None:
            due_s = min(due_s, self._new_since_s + QUIET_S)
        return max(due_s - self._clock(), 0.0)

    def _take_endings(self, batches: Iterable[_Batch]) -> Mapping[Partition, Sequence[Ending]]:
        """Return what an object with these batches tells of transactions."""
        logs = dict.fromkeys(map(_LOG, batches))
        for log in logs:
            self.since_s.pop(log, None)
        told, self._new_endings = self._new_endings, {}
        if not told and not self._endings:
            return told
        own = dict.fromkeys(log.partition for log in logs)
        for partition in own:
            self.since_s.pop(partition, None)
            if kept := self._endings.pop(partition, None):
                told[partition] = kept + told.get(partition, [])
            self._kept -= len(told.get(partition, ()))
        for partition, ended in told.items():
            if partition not in own:
                self._endings.setdefault(partition, []).extend(ended)
        return told

    def _tell_again(self, log: PartitionLog, told: Told) -> None:
        """Keep what an object tells of which none of the partition's batches came into the log."""
        places, endings = told
        if earlier := places.get(log):
            log.untold = (*[one for one in earlier if not _is_refused(one[1])], *log.untold)
            self._new[log] = None
            self._wait([log])
        if ended := endings.get(log.partition):
            self._endings.setdefault(log.partition, [])[:0] = ended
            self._kept += len(ended)
            self._wait([log.partition])

    def _wait(self, news: Collection[PartitionLog] | Collection[Partition]) -> None:
        """Take note that there is news for objects to tell."""
        now_s = self._clock()
        for one in news:
            self.since_s.setdefault(one, now_s)
        if self._new_since_s is None and news:
            self._new_since_s = now_s


def _is_refused(offsets: Sequence[int]) -> bool:
    return max(offsets) == NOT_APPENDED
