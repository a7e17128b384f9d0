"""Where batches of the writers' objects go when nobody knows their offsets any more."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from protocol.records import Record, build_batch
from storage.aborted_transaction import AbortedTransaction
from storage.recovery.recover_placement import place, without_repeated
from storage.recovery.recover_producers import Producers
from storage.recovery.recover_scratch import FoundBatch, FoundSegment
from storage.recovery.recover_segments import choose_segments, gaps_between, stable_offsets
from storage.recovery.recover_tail import BuiltTail
from storage.recovery.recover_unbuilt import BuiltLog, unbuilt
from tests.support.fakes.objects import MemoryStore


def batch(
    expected: int,
    count: int,
    *,
    number: int = 0,
    epoch: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
    start: int = 0,
) -> FoundBatch:
    """Return a batch of the writer's object `number`."""
    producer_id, producer_epoch, base_sequence = producer
    return FoundBatch(
        leader_epoch=epoch,
        writer=f"writer-{epoch}",
        sequence=number,
        path=f"wal/{epoch}/{number}",
        byte_start=start,
        byte_length=100,
        record_count=count,
        run_offset=expected,
        max_timestamp_ms=number,
        base_timestamp_ms=number,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=0,
        crc=number * 1000 + start,
    )


def offsets(batches: list[FoundBatch], floor: int | None = None) -> dict[str, int]:
    """Return the offset of each run by its object."""
    return {run.batches[0].path: run.offset for run in place(batches, floor)}


def test_runs_go_where_they_were_expected() -> None:
    batches = [batch(100, 10, number=1), batch(110, 5, number=2), batch(116, 5, number=3)]
    assert list(offsets(batches, 100).values()) == [100, 110, 116]
    assert list(offsets(batches).values()) == [100, 110, 116]


def test_a_writer_that_did_not_know_the_end_fits_in_between() -> None:
    batches = [batch(-1, 10, number=1), batch(110, 5, number=2), batch(-1, 3, epoch=1)]
    assert list(offsets(batches, 100).values()) == [100, 110, 115]
    assert list(offsets(batches).values()) == [100, 110, 115]
    assert list(offsets([batch(-1, 10)], 7).values()) == [7]
    assert list(offsets([batch(-1, 10)]).values()) == [0]


def test_of_writers_that_did_not_know_the_end_the_last_ones_have_their_places() -> None:
    # Given three leaders' first objects, with room for two before what is certain
    first, second, third = (batch(-1, 3, number=1, epoch=epoch) for epoch in range(3))
    behind = batch(106, 5, number=2, epoch=2)

    # When they are placed, then the oldest goes to the end: perhaps it was never committed
    runs = place([first, second, third, behind], 100)
    assert [(run.offset, run.is_certain) for run in runs] == [
        *((100, True), (103, True), (106, True)),
        (111, False),
    ]
    assert [run.batches for run in runs] == [[second], [third], [behind], [first]]

    # And one that is too large anyway takes no other's place
    large = batch(-1, 9, number=1, epoch=2)
    assert list(offsets([first, second, large, behind], 100).values()) == [100, 103, 106, 111]


def test_an_object_that_was_never_committed_goes_to_the_end() -> None:
    # Given an upload that a crash has left, at whose offset a new leader went on
    left = batch(100, 20, number=9)
    batches = [left, batch(100, 10, number=1, epoch=1), batch(110, 5, number=2, epoch=1)]

    # Then what was committed keeps its offsets, and the other comes behind
    runs = place(batches, 100)
    assert [(run.offset, run.is_certain) for run in runs] == [
        (100, True),
        (110, True),
        (115, False),
    ]
    assert runs[-1].batches == [left]


def test_a_leader_that_had_not_heard_of_another_ones_commits_moves_nothing() -> None:
    # Given a leader whose partition another one led meanwhile, and which then heard of it
    other = [batch(offset, 1000, number=offset, epoch=1) for offset in range(1000, 6000, 1000)]
    old = [batch(0, 600, number=1), batch(600, 400, number=2)]
    stale = [batch(1000, 5, number=3, epoch=2), batch(1005, 5, number=4, epoch=2)]
    later = [batch(6010, 10, number=5, epoch=2), batch(6020, 10, number=6, epoch=2)]

    # When they are placed, then all are where they were committed
    runs = place([*old, *other, *stale, *later], 0)
    assert [run.offset for run in runs] == [
        *(0, 600, *range(1000, 6000, 1000), 6000, 6005, 6010, 6020)
    ]
    assert all(run.is_certain for run in runs)

    # Also if those from before it are built
    runs = place([*other[3:], *stale, *later], 4000)
    assert [run.offset for run in runs] == [4000, 5000, 6000, 6005, 6010, 6020]


def test_many_that_agree_outweigh_one_that_contradicts_them() -> None:
    # Given more than a crash can have left, and one of a newer leader, the last there is
    many = [batch(100 + 10 * at, 10, number=at, epoch=1) for at in range(20)]
    stale = batch(100, 5, number=99, epoch=2)
    runs = place([batch(0, 100), *many, stale], 0)
    assert [run.offset for run in runs] == [0, *range(100, 310, 10)]
    assert [run.is_certain for run in runs] == [True] * 21 + [False]

    # And what expects less than where all that is not built begins says nothing of the others
    runs = place([*many[10:], stale], 200)
    assert [run.offset for run in runs] == [*range(200, 310, 10)]


def test_what_was_refused_leaves_no_gap_behind_it() -> None:
    # Given three batches of a producer in flight, of which the second came twice
    first, second, third = (7, 0, 0), (7, 0, 10), (7, 0, 20)
    batches = [
        batch(100, 10, number=1, producer=first),
        batch(110, 10, number=2, producer=second),
        batch(120, 10, number=3, producer=second),
        batch(130, 10, number=4, producer=third),
        batch(130, 10, number=5),
    ]
    kept = without_repeated(batches, Producers())
    assert [one.sequence for one in kept] == [1, 2, 4, 5]

    # When they are placed, then what was expected too far behind fits before what came later
    assert list(offsets(kept, 100).values()) == [100, 110, 120, 130]


def test_a_batch_that_was_refused_and_came_again_is_there_once_in_its_place() -> None:
    batches = [
        batch(100, 10, number=1, producer=(7, 0, 0)),
        batch(110, 10, number=2, producer=(7, 0, 20)),  # before its turn
        batch(110, 10, number=3, producer=(7, 0, 10)),
        batch(120, 10, number=4, producer=(7, 0, 20)),
    ]
    kept = without_repeated(batches, Producers())
    assert [one.sequence for one in kept] == [1, 3, 4]
    assert list(offsets(kept, 100).values()) == [100, 110, 120]


def test_a_second_batch_that_came_before_the_first_was_refused() -> None:
    # Given a producer of which nothing is known: its second batch before the first, once and twice
    second = batch(100, 10, number=2, producer=(7, 0, 10))
    first = batch(100, 10, number=3, producer=(7, 0, 0))
    again = batch(110, 10, number=4, producer=(7, 0, 10))
    assert without_repeated([second, first, again], Producers()) == [first, again]
    assert without_repeated([second, first], Producers()) == [first]

    # And one that is known, whose client was gone before it sent the third again
    third = batch(110, 10, number=3, producer=(7, 0, 20))
    last = batch(110, 10, number=4, producer=(7, 0, 10))
    assert without_repeated([first, third, last], Producers()) == [first, last]


def test_a_batch_that_came_again_late_refuses_nothing_of_what_was_behind_it() -> None:
    # Given a producer whose earlier batches are built, out of sight, and which sent the last of
    # them again behind those that follow
    following = [batch(100, 10, number=2, producer=(7, 0, 100))]
    following.append(batch(110, 10, number=3, producer=(7, 0, 110)))
    again = batch(120, 10, number=4, producer=(7, 0, 90))

    # Then it is there once, and so are they
    assert without_repeated([*following, again], Producers()) == following


def test_all_that_were_under_way_with_a_first_batch_were_refused_before_it() -> None:
    # Given four batches of a new producer, the first of which came last, and then all again
    first, *others = [batch(100, 10, number=at, producer=(7, 0, at * 10)) for at in range(4)]
    again = [batch(110, 10, number=at + 5, producer=(7, 0, at * 10)) for at in (1, 2, 3)]
    assert without_repeated([*others, first, *again], Producers()) == [first, *again]
    assert without_repeated([*others, first], Producers()) == [first]


def test_a_producer_that_was_forgotten_went_on() -> None:
    # Given batches from the middle, one of which comes again
    batches = [
        batch(100, 10, number=1, producer=(7, 0, 50)),
        batch(110, 10, number=2, producer=(7, 0, 60)),
        batch(120, 10, number=3, producer=(7, 0, 50)),
    ]
    assert without_repeated(batches, Producers()) == batches[:2]


def test_what_comes_after_something_lost_is_kept() -> None:
    batches = [
        batch(100, 10, number=1, producer=(7, 0, 0)),
        batch(130, 10, number=4, producer=(7, 0, 30)),
        batch(140, 10, number=5, producer=(7, 1, 5)),
    ]
    kept = without_repeated(batches, Producers())
    assert kept == batches
    assert list(offsets(kept, 100).values()) == [100, 130, 140]


@dataclass
class Log:
    """What a partition went through, and what is left of it."""

    next_offset: int = 0
    sequence: int = 0
    truth: dict[str, int] = field(default_factory=dict)
    found: list[FoundBatch] = field(default_factory=list)


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """Draw commits, uploads that a crash left, markers that leaders know of, and leaders."""
    log = Log(next_offset=draw(st.integers(0, 50)))
    log.truth[""] = log.next_offset
    epoch = number = 0
    for _ in range(draw(st.integers(1, 12))):
        match draw(st.sampled_from(["commit", "commit", "commit", "crash", "marker"])):
            case "commit":
                count = draw(st.integers(1, 10))
                one = batch(log.next_offset, count, number=number, epoch=epoch)
                log.truth[one.path] = log.next_offset
                log.found.append(one)
                log.next_offset += count
            case "crash":  # what was under way is in the store, and somebody goes on
                if draw(st.booleans()):
                    one = batch(
                        log.next_offset, draw(st.integers(1, 30)), number=number, epoch=epoch
                    )
                    log.found.append(one)
                epoch += 1
                count = draw(st.integers(1, 10))
                one = batch(log.next_offset, count, number=number + 1, epoch=epoch)
                log.truth[one.path] = log.next_offset
                log.found.append(one)
                log.next_offset += count
            case _:
                log.next_offset += 1
        number += 2
    return log


@given(log=logs())
def test_whatever_was_committed_keeps_its_offset(log: Log) -> None:
    found = offsets(log.found, log.truth.pop(""))
    assert {path: found[path] for path in log.truth} == log.truth


@given(data=st.data())
def test_runs_never_overlap_and_begin_at_the_floor_or_behind(data: st.DataObject) -> None:
    batches = [
        batch(
            data.draw(st.integers(-1, 60)),
            data.draw(st.integers(1, 9)),
            number=number,
            epoch=number // 4,
        )
        for number in range(data.draw(st.integers(1, 12)))
    ]
    floor = data.draw(st.none() | st.integers(0, 60))
    runs = place(batches, floor)
    end = floor or 0
    for run in runs:
        assert run.offset >= end
        end = run.offset + run.count
    assert sum(len(run.batches) for run in runs) == len(batches)


def tail_of(*values: bytes, base_offset: int = 0) -> BuiltTail:
    """Return a tail of batches with one record each."""
    tail = BuiltTail(base_offset + len(values))
    tail.start_offset = base_offset
    for number, value in enumerate(values):
        record = Record(offset_delta=0, value=value)
        tail.take(memoryview(build_batch([record], base_offset=base_offset + number)))
    return tail


async def test_what_is_built_is_not_appended_again() -> None:
    # Given a tail of offsets 2,000 to 2,002, of which the writer's object 8 has the last
    tail = tail_of(b"a", b"b", b"c", base_offset=2000)
    same = build_batch([Record(offset_delta=0, value=b"c")])
    in_tail = batch(2002, 1, number=8)._replace(
        crc=int.from_bytes(same[17:21]), byte_length=len(same)
    )

    # When the batches around it are looked through
    before = [batch(-1, 1, number=5), batch(7, 5, number=6), batch(1990, 5, number=7)]
    behind = [batch(2001, 1, number=9), batch(2003, 1, number=10), batch(-1, 1, number=11)]

    # Then those behind it are new, also where the writer had not heard of all before them
    built = BuiltLog(MemoryStore(), [], tail)
    assert await unbuilt([*before, in_tail, *behind], built) == behind
    assert await unbuilt([*before, in_tail], built) == []
    assert await unbuilt(before, None) == before


async def test_what_its_writer_expected_too_far_on_is_there_once() -> None:
    # Given a tail of offsets 100 to 104, and an object whose writer expected its last batch there
    # behind others, which were refused
    tail = tail_of(b"a", b"b", b"c", b"d", b"e", base_offset=100)
    same = build_batch([Record(offset_delta=0, value=b"e")])
    built = BuiltLog(MemoryStore(), [], tail)
    late = batch(110, 1, number=8)._replace(crc=int.from_bytes(same[17:21]), byte_length=len(same))

    # Then it is built, unless it came once more, or is told to be behind, or no gap is before it
    assert await unbuilt([late], built) == []
    following = late._replace(run_offset=105)
    assert await unbuilt([following], built) == [following]
    before = batch(105, 5, number=7)
    assert await unbuilt([before, late], built) == [before, late]
    again = late._replace(path="wal/0/9", sequence=9, run_offset=111)
    assert await unbuilt([late._replace(run_offset=104), again], built) == [again]
    told = late._replace(is_told=1)
    assert await unbuilt([told], built) == [told]

    # And if something is told to be in between, which was not refused
    assert await unbuilt([late], built, [105]) == [late]
    assert await unbuilt([late], built, [104, 110]) == []


def segment(start: int, end: int, modified_ms: int = 0) -> FoundSegment:
    return FoundSegment(
        path=f"topics/t/partitions/0/segments/{start:08d}-{end:08d}.{modified_ms}.seg",
        size=1,
        start_offset=start,
        end_offset=end,
        byte_start=32,
        byte_length=1,
        index_length=1,
        max_timestamp_ms=0,
        modified_ms=modified_ms,
        aborted=(),
    )


def test_segments_that_replaced_others_are_chosen() -> None:
    merged = segment(0, 29, 5)
    old = [segment(0, 9, 1), segment(10, 19, 2), segment(20, 29, 3), segment(30, 39, 4)]
    assert choose_segments([*old, merged]) == [merged, old[3]]
    rewritten = segment(30, 39, 9)
    assert choose_segments([rewritten, *old]) == [*old[:3], rewritten]
    assert choose_segments([]) == []


def test_a_segment_that_came_too_late_does_not_cost_what_others_cover() -> None:
    kept = [segment(0, 9, 1), segment(10, 29, 2)]
    assert choose_segments([*kept, segment(0, 14, 9)]) == kept
    assert gaps_between([segment(0, 9), segment(15, 20), segment(21, 22)]) == [(10, 14)]


def test_the_last_stable_offset_after_a_marker_is_before_all_that_end_later() -> None:
    aborted = [
        AbortedTransaction(producer_id=1, first_offset=0, last_offset=5),
        AbortedTransaction(producer_id=2, first_offset=3, last_offset=9),
        AbortedTransaction(producer_id=3, first_offset=20, last_offset=30),
    ]
    assert stable_offsets(aborted) == [3, 10, 31]
