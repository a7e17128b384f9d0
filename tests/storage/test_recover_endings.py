"""Ends of transactions that only objects tell: where they are, and what they end."""

from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from protocol.control_batch import EndMarker, read_end_marker
from storage.recovery.recover_partition import PartitionBuilder, RebuiltPartition
from storage.recovery.recover_placement import place
from storage.recovery.recover_producers import Producers
from storage.recovery.recover_runs import PlacedRun
from storage.recovery.recover_scratch import FoundBatch
from storage.recovery.recover_told import NONE_GONE, Gone, gone_of
from tests.storage.test_recover_placement import batch

NOW_MS = 1_790_000_000_000


def written(offset: int, count: int, producer_id: int, epoch: int = 0) -> PlacedRun:
    """Return a transaction's batch that has its place."""
    one = batch(offset, count, number=offset, producer=(producer_id, epoch, 0))
    return PlacedRun([one._replace(transactional=1)], offset, count, offset=offset)


def end(producer_id: int, *, committed: bool = True, epoch: int = 0) -> EndMarker:
    return EndMarker(
        producer_id=producer_id, producer_epoch=epoch, committed=committed, timestamp_ms=5
    )


def rebuilt(
    runs: Sequence[PlacedRun],
    endings: Mapping[int, EndMarker],
    start: int = 0,
    gone: Gone = NONE_GONE,
) -> RebuiltPartition:
    builder = PartitionBuilder(
        [], Producers(), endings, log_start_offset=start, now_ms=NOW_MS, gone=gone
    )
    for run in runs:
        builder.add(run)
    return builder.finish([])


def markers(partition: RebuiltPartition) -> dict[int, tuple[int, bool]]:
    """Return the producer of each marker by its offset, and whether it commits."""
    found = {}
    for row in partition.rows:
        if row.inline is not None and row.start_offset == row.end_offset:
            marker = read_end_marker(row.inline)
            found[row.start_offset] = marker.producer_id, marker.committed
    return found


def aborted(partition: RebuiltPartition) -> list[tuple[int, int, int]]:
    return [(one.producer_id, one.first_offset, one.last_offset) for one in partition.aborted]


def test_transactions_end_as_told_where_it_is_told() -> None:
    # Given three transactions, of which the second was aborted, and one that is open
    runs = [written(0, 5, 1), written(5, 5, 2), written(12, 3, 1), written(16, 2, 3)]
    endings = {10: end(1), 11: end(2, committed=False), 15: end(1)}

    # When the partition is put together
    partition = rebuilt(runs, endings)

    # Then only what is open is aborted by it, at the end
    assert markers(partition) == {10: (1, True), 11: (2, False), 15: (1, True), 18: (3, False)}
    assert aborted(partition) == [(2, 5, 11), (3, 16, 18)]
    assert (partition.unfinished, partition.lost, partition.high_watermark) == (1, [], 19)


def test_what_nobody_tells_ends_no_transaction_whose_end_is_told() -> None:
    # Given two open transactions and two offsets behind them, of which the second is told
    runs = [written(0, 5, 1, epoch=4), written(5, 5, 2), written(12, 3, 7)]

    # When that is the end of the first one, by the client's epoch or the next (KIP-890)
    for epoch in (4, 5):
        partition = rebuilt(runs, {11: end(1, epoch=epoch), 15: end(7)})

        # Then the other one has ended before it
        assert markers(partition) == {10: (2, False), 11: (1, True), 15: (7, True)}
        assert (partition.unfinished, partition.lost) == (1, [])

    # And the end of a later transaction of the producer is not that of this one
    runs.append(written(15, 2, 1, epoch=5))
    partition = rebuilt(runs, {11: end(2), 17: end(1, epoch=6), 18: end(7)})
    assert markers(partition)[10] == (1, False)


def test_no_transaction_ends_where_records_are_told_to_be() -> None:
    # Given a lost object with records of which it is told where they began
    gone = Gone(offsets=[10], all_offsets=[10], end_offset=11)

    # When a transaction is open there whose end nobody tells, then it ends behind all of them
    partition = rebuilt([written(0, 10, 1), written(12, 2, 2)], {14: end(2)}, gone=gone)
    assert markers(partition) == {14: (2, True), 15: (1, False)}
    assert (partition.lost, partition.unfinished) == ([(10, 11)], 1)

    # And where there is room before them, there
    partition = rebuilt([written(0, 9, 1), written(12, 2, 2)], {14: end(2)}, gone=gone)
    assert markers(partition) == {9: (1, False), 14: (2, True)}
    assert partition.lost == [(10, 11)]

    # And one that goes on behind them ends as told
    partition = rebuilt([written(0, 10, 1), written(12, 10, 1)], {22: end(1)}, gone=gone)
    assert (aborted(partition), partition.lost) == ([], [(10, 11)])

    # And what is told of an object that can be read in part counts, too
    found = batch(0, 10, number=3)
    gone = gone_of([found], {(found.writer, found.sequence): (0, 10)})
    assert (gone.offsets, gone.all_offsets) == ([], [0, 10])


def test_ends_behind_all_records_are_there_and_their_offsets_stay_taken() -> None:
    partition = rebuilt([written(7, 2, 1)], {3: end(9), 11: end(1)}, start=7)
    assert markers(partition) == {11: (1, True)}
    assert (partition.lost, partition.high_watermark) == ([(9, 10)], 12)


def test_a_producer_goes_on_with_the_epoch_of_its_marker() -> None:
    partition = rebuilt([written(0, 5, 1)], {5: end(1, epoch=1)})
    assert partition.producers.known[1].producer_epoch == 1
    assert partition.producers.known[1].last_sequence == -1


def placed(batches: list[FoundBatch], offsets: Sequence[int], floor: int = 0) -> list[int]:
    runs = place(batches, floor, offsets)
    assert all(run.is_certain for run in runs)
    return [run.offset for run in runs]


def test_a_writer_that_had_not_heard_of_an_end_wrote_behind_it() -> None:
    # Given three objects under way together, before whose writer's knowledge a transaction ended
    first, second, third = (batch(10 + 5 * n, 5, number=n) for n in range(3))
    assert placed([batch(0, 10, epoch=-1), first, second, third], [10]) == [0, 11, 16, 21]

    # Also if two did, or one in between, or one that it had heard of
    assert placed([first, second, third], [10, 11], floor=10) == [12, 17, 22]
    assert placed([first, second, third], [10, 16], floor=10) == [11, 17, 22]
    assert placed([first, batch(16, 5, number=4)], [15], floor=10) == [10, 16]


def test_what_nobody_expected_anywhere_is_before_the_end_if_there_is_room() -> None:
    unknown = batch(-1, 5, number=1)
    assert placed([unknown], [15], floor=10) == [10]
    assert placed([unknown, batch(16, 5, number=2)], [15], floor=10) == [10, 16]


def test_what_is_told_is_where_it_is_told_whatever_ends_around_it() -> None:
    told = [batch(offset, 5, number=offset)._replace(is_told=1) for offset in (11, 17)]
    assert placed([*told, batch(21, 5, number=30)], [10, 16, 22, 28]) == [11, 17, 23]
    assert place([], 0, [3, 4]) == []


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[FoundBatch], list[int], list[int]]:
    """Return a leader's batches, told or not, with their offsets, and those of ends it missed."""
    batches, offsets, ends = [], [], []
    at = known = 0
    for number in range(draw(st.integers(1, 12))):
        if draw(st.booleans()):
            ends.append(at)
            at += 1
        count = draw(st.integers(1, 4))
        one = batch(known, count, number=number)
        if draw(st.booleans()):
            one = one._replace(is_told=1, run_offset=at)
        batches.append(one)
        offsets.append(at)
        at += count
        known = at  # its answer tells
    return batches, offsets, ends


@given(history=histories())
def test_one_leader_moves_nothing_however_many_ends_it_missed(
    history: tuple[list[FoundBatch], list[int], list[int]],
) -> None:
    batches, offsets, ends = history
    assert placed(batches, ends) == offsets
