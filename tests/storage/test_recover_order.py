"""In which order batches were committed that several brokers wrote in one leader epoch."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.recovery.recover_order import in_commit_order, least_offsets, with_places
from storage.recovery.recover_placement import place, without_repeated
from storage.recovery.recover_producers import EndKey, Producers, Verdict, end_key
from storage.recovery.recover_runs import PlacedRun, runs_of
from storage.recovery.recover_scratch import FoundBatch
from storage.wal_index import NOT_APPENDED
from tests.storage.test_recover_placement import batch

Copy = tuple[int, int, int]
MANY_WRITERS: Final = 1000
MANY_S: Final = 10.0  # of CPU; comparing all with all takes an hour


def copy_of(one: FoundBatch) -> Copy:
    return one.producer_id, one.base_sequence, one.record_count


@dataclass
class Client:
    """An idempotent producer: what it waits for, and which broker it sends that to."""

    producer_id: int
    broker: int = 0
    sequence: int = 0
    under_way: list[Copy] = field(default_factory=list)


@dataclass
class Broker:
    """What it believes, and what it has uploaded and not committed yet."""

    number: int
    known_end: int = 0
    epoch: int = 0
    uploads: int = 0
    pending: list[FoundBatch] = field(default_factory=list)
    untold: dict[tuple[str, int], list[int]] = field(default_factory=dict)

    def upload(self, copy: Copy) -> FoundBatch:
        producer_id, sequence, count = copy
        expected = self.known_end + sum(one.record_count for one in self.pending)
        one = batch(
            expected,
            count,
            number=self.uploads,
            epoch=self.epoch,
            producer=(producer_id, 0, sequence),
        )._replace(writer=f"{self.number}", path=f"wal/{self.number}/{self.uploads}")
        self.uploads += 1
        self.pending.append(one)
        return one


@dataclass
class History:
    """A partition with its brokers and clients."""

    brokers: list[Broker]
    clients: list[Client]
    end: int = 0
    epoch: int = 0
    state: Producers = field(default_factory=Producers)
    found: list[FoundBatch] = field(default_factory=list)
    committed: dict[str, int] = field(default_factory=dict)
    told: dict[tuple[str, int], list[int]] = field(default_factory=dict)

    def send(self, client: Client, count: int) -> None:
        copy = (client.producer_id, client.sequence, count)
        client.sequence += count
        client.under_way.append(copy)
        self._upload(self.brokers[client.broker], copy)

    def move(self, client: Client, broker: int) -> None:
        """Send all that no answer came for to another broker."""
        client.broker = broker
        for copy in client.under_way:
            self._upload(self.brokers[broker], copy)

    def _upload(self, broker: Broker, copy: Copy) -> None:
        self.found.append(broker.upload(copy))
        self.told |= broker.untold
        broker.untold = {}

    def commit(self, broker: Broker) -> None:
        if not broker.pending:
            return
        one = broker.pending.pop(0)
        use = (one.producer_id, one.producer_epoch, one.base_sequence, one.record_count)
        broker.untold[one.writer, one.sequence] = [NOT_APPENDED]
        if one.leader_epoch < self.epoch:
            return
        self.epoch = one.leader_epoch
        verdict = self.state.verdict(*use)
        if verdict is Verdict.APPENDED:
            self.state.append(*use, self.end, transactional=False)
            self.committed[one.path] = self.end
            broker.untold[one.writer, one.sequence] = [self.end]
            self.end += one.record_count
            broker.known_end = self.end
        client = self.clients[one.producer_id]
        is_answer = client.broker == broker.number and copy_of(one) in client.under_way
        if is_answer and verdict in (Verdict.APPENDED, Verdict.REPEATED):
            client.under_way.remove(copy_of(one))


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Draw what clients send to brokers, which learn late of each other and of epochs."""
    history = History([Broker(0), Broker(1), Broker(2)], [Client(0), Client(1)])
    steps = st.sampled_from(
        ["send", "send", "send", "commit", "commit", "commit", "move", "hear", "marker"]
    )
    for _ in range(draw(st.integers(1, 40))):
        client = history.clients[draw(st.integers(0, 1))]
        broker = history.brokers[draw(st.integers(0, 2))]
        match draw(st.one_of(steps, st.just("epoch"))):
            case "send" if len(client.under_way) < 5:
                history.send(client, draw(st.integers(1, 3)))
            case "commit":
                history.commit(broker)
            case "move" if client.broker != broker.number:
                history.move(client, broker.number)
            case "marker":  # of a transaction, which nobody hears of
                history.end += 1
            case "hear":
                broker.known_end = history.end
            case "epoch" if not broker.pending:
                broker.epoch = max(one.epoch for one in history.brokers) + draw(st.integers(0, 1))
                broker.known_end = history.end
            case _:
                pass
    return history


def by_writer(history: History) -> list[FoundBatch]:
    return sorted(history.found, key=lambda one: (one.leader_epoch, one.writer, one.sequence))


@given(history=histories())
def test_nothing_that_was_committed_is_missing_or_there_twice(history: History) -> None:
    kept = without_repeated(in_commit_order(by_writer(history)), Producers())
    copies = [copy_of(one) for one in kept]
    assert len(set(copies)) == len(copies)
    assert {copy_of(one) for one in history.found if one.path in history.committed} <= set(copies)


@given(history=histories())
def test_what_was_told_is_where_it_was(history: History) -> None:
    told = with_places(by_writer(history), history.told)
    kept = without_repeated(in_commit_order(told), Producers())
    copies = [copy_of(one) for one in kept]
    assert len(set(copies)) == len(copies)
    assert {copy_of(one) for one in history.found if one.path in history.committed} <= set(copies)
    found = {run.batches[0].path: run.offset for run in place(kept, None) if run.is_told}
    sure = {f"wal/{writer}/{number}" for writer, number in history.told}
    assert found == {path: at for path, at in history.committed.items() if path in sure}


def test_batches_of_an_object_of_which_some_cannot_be_read_are_not_told() -> None:
    batches = [batch(7, 2, start=start) for start in (0, 200)]
    key = (batches[0].writer, batches[0].sequence)
    assert with_places(batches, {key: [40, 42, 44]}) == batches

    # Else they are, and what is not in the log is left out
    assert with_places(batches, {key: [NOT_APPENDED, 40]}) == [
        batches[1]._replace(run_offset=40, is_told=1)
    ]


@st.composite
def anything(draw: st.DrawFn) -> list[FoundBatch]:
    """Draw batches of some objects of several writers, whatever they say."""
    found: list[FoundBatch] = []
    for epoch, writer in draw(
        st.lists(st.tuples(st.integers(0, 1), st.integers(0, 5)), unique=True, max_size=8)
    ):
        for number in range(draw(st.integers(1, 4))):
            expected, is_told = draw(st.integers(-1, 12)), draw(st.integers(0, 4)) == 0
            for start in range(draw(st.integers(1, 3))):
                producer = draw(
                    st.one_of(
                        st.just((-1, -1, -1)),
                        st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 5)),
                    )
                )
                count = draw(st.integers(1, 3))
                one = batch(expected, count, number=number, epoch=epoch, producer=producer)
                path = f"wal/{epoch}/{writer}/{number}"
                found.append(
                    one._replace(
                        writer=f"{writer}", path=path, byte_start=start, is_told=int(is_told)
                    )
                )
    return sorted(found, key=lambda one: (one.leader_epoch, one.writer, one.sequence))


def by_comparison(batches: Sequence[FoundBatch]) -> list[FoundBatch]:
    """Return batches in the order of their commits: each run is compared with all that are left."""
    ordered: list[FoundBatch] = []
    done: set[EndKey] = set()
    for _, members in groupby(batches, lambda one: one.leader_epoch):
        lefts = [
            runs_with_least_offsets(list(group))
            for _, group in groupby(members, lambda one: one.writer)
        ]
        while lefts := [left for left in lefts if left]:
            ready = [
                left
                for left in lefts
                if left[0][0].is_told
                or not any(
                    waits(left[0][0], [run for run, _ in other], done)
                    for other in lefts
                    if other is not left
                )
            ]
            run, _ = min(ready or lefts, key=lambda left: left[0][1]).pop(0)
            done |= {end_key(one, one.record_count) for one in run.batches}
            ordered += run.batches
    return ordered


def runs_with_least_offsets(batches: list[FoundBatch]) -> list[tuple[PlacedRun, int]]:
    """Return a writer's runs with the offsets that they have at least."""
    runs = runs_of(batches)
    return list(zip(runs, least_offsets(runs), strict=True))


def waits(run: PlacedRun, left: Sequence[PlacedRun], done: set[EndKey]) -> bool:
    """Return whether a run comes behind one of those that are left of another writer."""
    others = [batch for one in left for batch in one.batches]
    own: set[EndKey] = set()
    for one in run.batches:
        before = end_key(one, 0)
        of_producer = [other for other in others if other.producer_id == one.producer_id >= 0]
        if before not in own and of_producer:
            ends = {end_key(other, other.record_count) for other in of_producer}
            is_newer = of_producer[0].producer_epoch < one.producer_epoch
            if is_newer or (before in ends and before not in done):
                return True
        own.add(end_key(one, one.record_count))
    return False


@given(history=histories())
def test_the_order_is_that_of_comparing_all_with_all(history: History) -> None:
    for batches in (by_writer(history), with_places(by_writer(history), history.told)):
        assert in_commit_order(batches) == by_comparison(batches)


@given(batches=anything())
def test_the_order_is_that_of_comparing_all_with_all_whatever_is_told(
    batches: list[FoundBatch],
) -> None:
    assert in_commit_order(batches) == by_comparison(batches)


@pytest.mark.parametrize("is_idempotent", [False, True])
def test_many_writers_of_one_epoch_are_ordered_soon(is_idempotent: bool) -> None:
    # Given a partition that each task of a large Spark job wrote to
    batches = [
        batch(-1, 1, number=number, producer=(writer, 0, number) if is_idempotent else (-1, -1, -1))
        ._replace(writer=f"{writer:04d}", path=f"wal/{writer}/{number}")
        for writer in range(MANY_WRITERS)
        for number in range(8)
    ]  # fmt: skip

    # When they are ordered, then nobody waits long for that, and each has its place
    began_s = time.process_time()
    assert len(in_commit_order(batches)) == len(batches)
    assert time.process_time() - began_s < MANY_S
