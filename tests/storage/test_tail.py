"""What memory holds of a log's end, and what it does where other brokers have written."""

from hypothesis import given
from hypothesis import strategies as st

from storage.reading.read_planner import END
from storage.tail import BATCH_OVERHEAD_BYTES, MAX_GAP, PartitionTail, TailCache


def batch(size: int = 100) -> memoryview:
    return memoryview(bytes(size))


def test_the_oldest_batches_of_any_partition_go_first() -> None:
    # Given room for three batches, and two partitions
    cache = TailCache(3 * (100 + BATCH_OVERHEAD_BYTES))
    one, other = PartitionTail(), PartitionTail()
    for offset in range(2):
        cache.append(one, offset, offset + 1, batch())
        cache.append(other, offset, offset + 1, batch())

    # Then the first of the first is forgotten, and the rest is held
    assert (one.start_offset, one.end_offset) == (1, 2)
    assert (other.start_offset, other.end_offset) == (0, 2)
    assert one.read(0, 1000, END) == ([], 0)
    assert other.read(0, 1000, END)[1] == 200


def test_forgotten_batches_leave_nothing_behind() -> None:
    cache = TailCache(10 * (100 + BATCH_OVERHEAD_BYTES))
    tail = PartitionTail()
    for offset in range(10_000):
        cache.append(tail, offset, offset + 1, batch())
    assert (tail.start_offset, tail.end_offset) == (9_990, 10_000)
    assert len(tail._batches) < 100


def test_a_batch_does_not_hold_on_to_a_frame_of_other_things() -> None:
    # Given a frame that is one batch but for its head, and one of which another part was refused
    cache, tail = TailCache(1 << 20), PartitionTail()
    frames = [bytearray(b"head" + bytes(100)), bytearray(b"head" + bytes(100) + bytes(1000))]
    for offset, frame in enumerate(frames):
        cache.append(tail, offset, offset + 1, memoryview(frame)[4:104])

    # Then the first is kept as it came, and of the second what counts
    (whole, part), size = tail.read(0, 1000, END)
    assert whole.obj is frames[0]
    assert part.obj == bytes(100)
    assert size == 200


def test_many_commits_of_another_broker_begin_the_tail_anew() -> None:
    cache = TailCache(1 << 20)
    tail = PartitionTail()
    cache.append(tail, 0, 5, batch())
    begin = 5 + MAX_GAP + 1
    cache.append(tail, begin, begin + 1, batch())
    assert tail.read(0, 1000, END) == ([], 0)
    assert (tail.start_offset, tail.end_offset) == (begin, begin + 1)


def test_whole_batches_from_the_one_that_holds_the_offset() -> None:
    tail = PartitionTail()
    for base_offset in (0, 10, 20):
        tail.append(base_offset, base_offset + 10, batch())
    assert tail.read(15, 150, END)[1] == 100
    assert tail.read(15, 200, END)[1] == 200
    assert tail.read(15, 1, END)[1] == 100, "the first one comes whatever the limit (KIP-74)"
    assert tail.read(30, 1000, END) == ([], 0)


def test_a_batch_at_the_end_offset_is_not_wanted() -> None:
    tail = PartitionTail()
    for base_offset in (0, 10, 20):
        tail.append(base_offset, base_offset + 10, batch())
    assert tail.read(0, 1000, 20)[1] == 200
    assert tail.read(5, 1000, 10)[1] == 100
    assert tail.read(10, 1000, 10) == ([], 0)
    assert tail.read(0, 1000, 30)[1] == 300


def test_a_gap_is_not_held_until_it_is_filled() -> None:
    # Given a tail where another broker took two offsets in between
    cache, tail = TailCache(1 << 20), PartitionTail()
    cache.append(tail, 0, 5, batch())
    cache.append(tail, 7, 10, batch())

    # Then reads end before the gap, and go on behind it
    assert tail.read(0, 1000, END)[1] == 100
    assert tail.read(5, 1000, END) == tail.read(6, 1000, END) == ([], 0)
    assert tail.read(7, 1000, END)[1] == 100
    assert [tail.gap_end(offset) for offset in (0, 4, 5, 6, 7, 10)] == [
        None,
        None,
        7,
        7,
        None,
        None,
    ]

    # When it is filled, from its beginning
    assert not cache.insert(tail, 6, 7, batch(10))
    assert not cache.insert(tail, 5, 8, batch(10))
    assert cache.insert(tail, 5, 6, batch(10))
    assert tail.read(0, 1000, END)[1] == 110
    assert cache.insert(tail, 6, 7, batch(10))

    # Then there is none, and nothing is taken twice
    assert tail.read(0, 1000, END)[1] == 220
    assert not cache.insert(tail, 5, 6, batch(10))
    assert cache.size == 220 + 4 * BATCH_OVERHEAD_BYTES


def test_a_marker_goes_on_where_the_tail_ends() -> None:
    cache, tail = TailCache(1 << 20), PartitionTail()
    assert not cache.insert(tail, 0, 1, batch()), "it would be a tail of nothing else"
    cache.append(tail, 1, 5, batch())
    assert cache.insert(tail, 5, 6, batch(10))
    assert not cache.insert(tail, 7, 8, batch(10))
    assert tail.read(1, 1000, END)[1] == 110


@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["here", "elsewhere", "told late", "read"]),
            st.integers(1, 3),
            st.integers(0, 40),
        ),
        max_size=60,
    ),
    room=st.integers(1, 12),
)
def test_whatever_is_held_is_what_was_committed(
    steps: list[tuple[str, int, int]], room: int
) -> None:
    # Given a small cache, and a log that this broker and others write
    cache, tail = TailCache(room * (BATCH_OVERHEAD_BYTES + 8)), PartitionTail()
    log: list[int] = []  # for each offset, the base offset of its batch
    ends: dict[int, int] = {}
    for step, count, chosen in steps:
        base = len(log)
        if step in {"here", "elsewhere"}:
            log += [base] * count
            ends[base] = len(log)
        if step == "here":
            cache.append(tail, base, len(log), memoryview(base.to_bytes(8)))
        if step == "told late" and ends:
            late = list(ends)[chosen % len(ends)]
            cache.insert(tail, late, ends[late], memoryview(late.to_bytes(8)))
        if step == "read" and log:
            # When any offset is read, it is answered by the batches that hold it and what follows
            offset = chosen % len(log)
            batches, size = tail.read(offset, 16, END)
            found = [int.from_bytes(one) for one in batches]
            expected = sorted(ends)[sorted(ends).index(log[offset]) :][: len(found)]
            assert found == expected
            assert size == 8 * len(found) <= 16

    # Then the bytes that count are those that are held, or were until the tail began anew
    assert cache.size <= room * (BATCH_OVERHEAD_BYTES + 8)
