"""In which order the writers' batches of a partition were committed; pure.

Of most a writer was told where they are. For the others: a partition takes no batch of an older
leader epoch, and each writer commits its objects in their order. But several may write in one
epoch: a broker in each rack, and others until their clients hear who leads. Then a run comes behind
what its writer had heard of, and behind what the producers of its batches had numbered before them.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final

from protocol.batch import NO_PRODUCER_ID
from storage.recovery.recover_producers import EndKey, end_key
from storage.recovery.recover_runs import PlacedRun, runs_of
from storage.recovery.recover_scratch import FoundBatch
from storage.wal_index import NOT_APPENDED

Places = Mapping[tuple[str, int], Sequence[int]]

_EPOCH: Final = attrgetter("leader_epoch")
_WRITER: Final = attrgetter("writer")
_LEAST_OFFSET: Final = attrgetter("least_offset")


def _object_of(batch: FoundBatch) -> tuple[str, int]:
    return batch.writer, batch.sequence


class _Queue:
    """The runs of one writer in one epoch that are left, in their order."""

    def __init__(self, batches: Sequence[FoundBatch]) -> None:
        runs = runs_of(batches)
        self._runs = deque(zip(runs, _least_offsets(runs), strict=True))
        self._ends = Counter(end_key(one, one.record_count) for one in batches)
        self._epochs: dict[int, deque[int]] = defaultdict(deque)
        for one in batches:
            self._epochs[one.producer_id].append(one.producer_epoch)

    def __bool__(self) -> bool:
        return bool(self._runs)

    @property
    def first(self) -> PlacedRun:
        return self._runs[0][0]

    @property
    def least_offset(self) -> int:
        """Return that of the first run, as far as its writer knew."""
        return self._runs[0][1]

    def take(self) -> PlacedRun:
        run, _ = self._runs.popleft()
        for batch in run.batches:
            self._ends[end_key(batch, batch.record_count)] -= 1
            self._epochs[batch.producer_id].popleft()
        return run

    def precedes(self, batch: FoundBatch, done: Collection[EndKey]) -> bool:
        """Return whether a batch of another writer comes behind one that is left here.

        Args:
            batch: of the other writer.
            done: ends of batches that come before it anyway.
        """
        epochs = self._epochs.get(batch.producer_id)
        if not epochs or batch.producer_id == NO_PRODUCER_ID:
            return False
        before = end_key(batch, 0)
        return epochs[0] < batch.producer_epoch or (before not in done and self._ends[before] > 0)


def with_places(batches: Sequence[FoundBatch], places: Places) -> list[FoundBatch]:
    """Return batches with the offsets that they have, as far as writers tell, in the same order.

    Args:
        batches: those of one object in the order that they have there.
        places: base offsets of an object's batches, by its writer and sequence; those that are not
            in the log are left out.
    """
    counts = Counter(map(_object_of, batches))
    numbers: Counter[tuple[str, int]] = Counter()
    ends: dict[tuple[str, int], tuple[int, int]] = {}  # of a run so far: its offset, and its end
    placed: list[FoundBatch] = []
    for one in batches:
        base_offsets = places.get(key := _object_of(one), ())
        if len(base_offsets) != counts[key]:  # some cannot be read: nobody knows which
            placed.append(one)
            continue
        base_offset = base_offsets[numbers[key]]
        numbers[key] += 1
        if base_offset == NOT_APPENDED:
            continue
        run_offset, end = ends.get((one.path, one.leader_epoch), (-1, -1))
        if base_offset != end:
            run_offset = base_offset
        ends[one.path, one.leader_epoch] = run_offset, base_offset + one.record_count
        placed.append(one._replace(run_offset=run_offset, is_told=1))
    return placed


def in_commit_order(batches: Sequence[FoundBatch]) -> list[FoundBatch]:
    """Return batches in the order of their commits.

    Args:
        batches: by leader epoch, writer, and order of that writer.
    """
    ordered: list[FoundBatch] = []
    done: set[EndKey] = set()
    for _, members in groupby(batches, _EPOCH):
        queues = [_Queue(list(group)) for _, group in groupby(members, _WRITER)]
        while queues:
            queue = _next(queues, done)
            run = queue.take()
            done.update(end_key(one, one.record_count) for one in run.batches)
            ordered += run.batches
            if not queue:
                queues.remove(queue)
    return ordered


def _next(queues: Sequence[_Queue], done: Collection[EndKey]) -> _Queue:
    """Return the one whose run is next: of those that wait for no other, the earliest."""
    if len(queues) == 1:
        return queues[0]
    ready = [
        one
        for one in queues
        if one.first.is_told
        or not any(_waits(one.first, other, done) for other in queues if other is not one)
    ]
    return min(ready or queues, key=_LEAST_OFFSET)


def _waits(run: PlacedRun, other: _Queue, done: Collection[EndKey]) -> bool:
    own: set[EndKey] = set()
    for batch in run.batches:
        if end_key(batch, 0) not in own and other.precedes(batch, done):
            return True
        own.add(end_key(batch, batch.record_count))
    return False


def _least_offsets(runs: Sequence[PlacedRun]) -> list[int]:
    """Return the least offset that each run of a writer can have; where told, the only one.

    What the writer did not know the end of is before what it knew next.
    """
    offsets: list[int] = []
    following = -1
    for run in reversed(runs):
        known = run.expected_offset
        following = known if known >= 0 else max(following - run.count, -1)
        offsets.append(following)
    offsets.reverse()
    least = -1
    for number, run in enumerate(runs):
        offsets[number] = offsets[number] if run.is_told else max(least, offsets[number])
        least = offsets[number] + (run.count if run.is_told else 0)
    return offsets
