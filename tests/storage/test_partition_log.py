"""What a broker believes of a partition when news of it come late, twice, or in any order."""

from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from protocol.ids import Partition
from storage.partition_log import POLLS_AFTER_FETCH, PartitionLog
from storage.partition_offsets import PartitionOffsets


@dataclass(eq=False)
class Poll:
    """A long poll. Attributes: sizes is what it was told, moves how often the end had moved."""

    read_committed: bool
    waits: bool = True
    sizes: list[int] = field(default_factory=list)
    moves: int = 0

    def grown(self, size: int) -> None:
        self.sizes.append(size)

    def moved(self) -> None:
        self.moves += 1


def partition_log() -> PartitionLog:
    log = PartitionLog(Partition(UUID(int=1), 0))
    log.refresh(at(0, 0, 0))
    return log


def at(end: int, stable: int, aborted: int) -> PartitionOffsets:
    return PartitionOffsets(
        log_start_offset=0, high_watermark=end, last_stable_offset=stable, aborted_count=aborted
    )


def commit(log: PartitionLog, end: int, stable: int, aborted: int = 0, size: int = 100) -> None:
    log.advance(
        high_watermark=end,
        log_start_offset=0,
        last_stable_offset=stable,
        aborted_count=aborted,
        size=size,
    )


@given(
    history=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 1)), min_size=1, max_size=20
    ),
    data=st.data(),
)
def test_the_pair_is_of_the_latest_snapshot_that_was_heard_of(
    history: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    # Given the snapshots that a partition went through
    snapshots = [at(0, 0, 0)]
    for grows, stable_grows, aborts in history:
        last = snapshots[-1]
        end = last.high_watermark + grows + aborts
        stable = min(last.last_stable_offset + stable_grows, end)
        snapshots.append(at(end, stable, last.aborted_count + aborts))

    # When some of them are heard of, in any order
    heard = data.draw(st.lists(st.sampled_from(snapshots), min_size=1))
    log = partition_log()
    for one in heard:
        log.refresh(one)

    # Then what is believed is the latest one, whole
    latest = max(heard, key=snapshots.index)
    pair = (log.last_stable_offset, log.aborted_count)
    assert pair == (latest.last_stable_offset, latest.aborted_count)
    assert log.high_watermark == latest.high_watermark


def test_a_commit_of_several_batches_is_stable_batch_by_batch() -> None:
    log = partition_log()
    commit(log, end=5, stable=10)
    assert log.last_stable_offset == 5
    commit(log, end=10, stable=10)
    assert log.last_stable_offset == 10


def test_a_reader_of_committed_records_waits_for_the_last_stable_offset() -> None:
    # Given a reader of each kind
    log = partition_log()
    committed, uncommitted = Poll(read_committed=True), Poll(read_committed=False)
    log.add_waiter(committed)
    log.add_waiter(uncommitted)

    # When records come that are of no transaction
    commit(log, end=5, stable=5)
    assert (committed.sizes, uncommitted.sizes) == ([100], [100])

    # When a transaction begins, and goes on
    commit(log, end=8, stable=5)
    commit(log, end=9, stable=5)
    assert (committed.sizes, uncommitted.sizes) == ([100], [100, 100, 100])
    assert (committed.moves, uncommitted.moves) == (2, 0)

    # When it ends, nobody has counted what that makes readable
    log.refresh(at(10, 10, 0))
    assert (committed.sizes, uncommitted.sizes) == ([100, 0], [100, 100, 100, 0])


def test_a_moved_stable_offset_is_news_at_an_old_high_watermark() -> None:
    log = partition_log()
    commit(log, end=8, stable=5)
    poll = Poll(read_committed=True)
    log.add_waiter(poll)
    log.refresh(at(8, 6, 0))
    assert poll.sizes == [0]
    log.refresh(at(8, 6, 0))
    assert poll.sizes == [0]


def test_where_a_log_ends_is_not_known_until_something_is_heard_since_leaders_changed() -> None:
    log = PartitionLog(Partition(UUID(int=1), 0))
    known = [log.is_end_known]
    calls: list[Callable[[], None]] = [
        lambda: commit(log, 10, 10),
        log.leader_changed,
        lambda: log.refresh(at(10, 10, 0)),
    ]
    for call in calls:
        call()
        known.append(log.is_end_known)
    assert known == [False, True, False, True]


def test_who_is_polled_is_who_was_read_a_moment_ago() -> None:
    # Given two partitions of a broker
    read: set[PartitionLog] = set()
    log, other = (PartitionLog(Partition(UUID(int=1), index), read) for index in range(2))

    # When somebody waits for one of them, and goes
    poll = Poll(read_committed=False)
    log.add_waiter(poll)
    assert log.take_poll()
    log.remove_waiter(poll)

    # Then that one is polled a few times more: a client that never waits may ask again
    assert read == {log}
    assert [log.take_poll() for _ in range(POLLS_AFTER_FETCH + 1)] == (
        [True] * POLLS_AFTER_FETCH + [False]
    )

    # And nobody polls what is deleted
    other.add_waiter(poll)
    other.remove()
    assert read == {log}
