"""In which order the writers' batches of a partition were committed; pure.

Of most a writer was told where they are. For the others: a partition takes no batch of an older
leader epoch, and each writer commits its objects in their order. But several may write in one
epoch: a broker in each rack, and others until their clients hear who leads. Then a run comes behind
what its writer had heard of, and behind what the producers of its batches had numbered before them.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import heappop, heappush
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

_Turn = tuple[int, int, int]
"""The least offset of a run, the number of its writer, and how many of its runs came before."""


def _object_of(batch: FoundBatch) -> tuple[str, int]:
    return batch.writer, batch.sequence


class _Queue:
    """The runs of one writer in one epoch that are left, in their order.

    Attributes:
        number: of the writer.
        taken: how many of its runs are not left any more.
        is_ready: its first run waits for no other.
    """

    def __init__(self, number: int, batches: Sequence[FoundBatch]) -> None:
        runs = runs_of(batches)
        self.number = number
        self.taken = 0
        self.is_ready = False
        self._runs = deque(zip(runs, least_offsets(runs), strict=True))
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
    def turn(self) -> _Turn:
        """Return that of the first run: the earlier, the smaller, as far as its writer knew."""
        return self._runs[0][1], self.number, self.taken

    @property
    def producer_ids(self) -> Collection[int]:
        """Return those of all runs that there were."""
        return self._epochs

    def take(self) -> PlacedRun:
        run, _ = self._runs.popleft()
        self.taken += 1
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
        if not epochs:
            return False
        before = end_key(batch, 0)
        return epochs[0] < batch.producer_epoch or (before not in done and self._ends[before] > 0)


class _Epoch:
    """The writers of one epoch: there may be one for each task of a Spark job.

    So a run is compared only with those of its producers, and anew only when one of these is taken.
    """

    def __init__(self, batches: Iterable[FoundBatch], done: set[EndKey]) -> None:
        self._done = done
        self._queues = [
            _Queue(number, list(group))
            for number, (_, group) in enumerate(groupby(batches, _WRITER))
        ]
        self._of_producer: dict[int, list[_Queue]] = defaultdict(list)
        for queue in self._queues:
            for producer_id in queue.producer_ids:
                if producer_id != NO_PRODUCER_ID:
                    self._of_producer[producer_id].append(queue)
        self._all: list[_Turn] = []  # heaps; of runs that were taken meanwhile, too
        self._ready: list[_Turn] = []
        for queue in self._queues:
            self._come_first(queue)

    def take(self) -> PlacedRun | None:
        """Take the next run: the earliest of those that wait for no other; None if none is left."""
        queue = self._earliest(self._ready, ready=True) or self._earliest(self._all, ready=False)
        if queue is None:
            return None
        run = queue.take()
        self._done.update(end_key(one, one.record_count) for one in run.batches)
        self._come_first(queue)
        for producer_id in _producers_of(run):
            for other in self._of_producer[producer_id]:
                if other and producer_id in _producers_of(other.first):
                    self._look_at(other)
        return run

    def _earliest(self, heap: list[_Turn], *, ready: bool) -> _Queue | None:
        while heap:
            queue = self._queues[heap[0][1]]
            if queue and heap[0] == queue.turn and (queue.is_ready or not ready):
                return queue
            heappop(heap)
        return None

    def _come_first(self, queue: _Queue) -> None:
        """Take note of the run that is the first of its writer's now."""
        queue.is_ready = False
        if queue:
            heappush(self._all, queue.turn)
            self._look_at(queue)

    def _look_at(self, queue: _Queue) -> None:
        """Look whether the first run of a writer waits for another."""
        was_ready = queue.is_ready
        queue.is_ready = queue.first.is_told or not self._waits(queue)
        if queue.is_ready and not was_ready:
            heappush(self._ready, queue.turn)

    def _waits(self, queue: _Queue) -> bool:
        own: set[EndKey] = set()
        for batch in queue.first.batches:
            if batch.producer_id == NO_PRODUCER_ID:
                continue
            if end_key(batch, 0) not in own and any(
                other.precedes(batch, self._done)
                for other in self._of_producer[batch.producer_id]
                if other is not queue
            ):
                return True
            own.add(end_key(batch, batch.record_count))
        return False


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
        epoch = _Epoch(members, done)
        while run := epoch.take():
            ordered += run.batches
    return ordered


def _producers_of(run: PlacedRun) -> set[int]:
    """Return the ids of a run's idempotent producers."""
    return {one.producer_id for one in run.batches} - {NO_PRODUCER_ID}


def least_offsets(runs: Sequence[PlacedRun]) -> list[int]:
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
