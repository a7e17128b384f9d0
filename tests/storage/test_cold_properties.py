"""However a partition was written, built and compacted: consumers read what is left, in order."""

import asyncio
from bisect import bisect_left
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage import segment_encoder
from storage.reading import read_plan
from tests.storage.cold_bench import ColdBench

BLOCK_BYTES = 2_000
GET_BYTES = 5_000


@dataclass(frozen=True)
class Story:
    """How a partition came to be, and how it is read.

    Attributes:
        objects: of the writer: sizes of the batches of each.
        segments: how many objects each segment is built of; those behind are not built.
        removed: offsets that compaction took away, where there are segments.
        reads: of consumers at the same time: from which offset, and how much in one fetch.
    """

    objects: list[list[int]]
    segments: list[int]
    removed: set[int]
    cache_bytes: int
    reads: list[tuple[int, int]]


@st.composite
def stories(draw: st.DrawFn) -> Story:
    batch = st.integers(100, 3_000)
    objects = draw(st.lists(st.lists(batch, min_size=1, max_size=12), min_size=1, max_size=8))
    segments, left = [], len(objects)
    while left and draw(st.integers(0, 4)):
        segments.append(draw(st.integers(1, left)))
        left -= segments[-1]
    count = sum(map(len, objects))
    offset = st.integers(0, count)
    return Story(
        objects=objects,
        segments=segments,
        removed=draw(st.sets(offset)),
        cache_bytes=draw(st.sampled_from([1_000, 10_000, 1_000_000])),
        reads=draw(st.lists(st.tuples(offset, st.integers(1, 20_000)), min_size=1, max_size=4)),
    )


async def tell(story: Story) -> None:
    # Given the partition
    bench = ColdBench(max_bytes=story.cache_bytes)
    (log,) = await bench.create()
    for sizes in story.objects:
        await bench.write([log], batches=len(sizes), batch_bytes=max(sizes))
    expected: set[int] = set()
    done, end = 0, 0
    for count in story.segments:
        await bench.build(log, rows=count, keep=lambda offset: offset not in story.removed)
        start, done = end, done + count
        end = sum(map(len, story.objects[:done]))
        kept = set(range(start, end)) - story.removed
        expected |= kept or {start}  # an empty batch, if nothing is left
    expected |= set(range(end, sum(map(len, story.objects))))
    bench.restart()

    # When consumers read it to its end
    replays = await asyncio.gather(
        *(bench.replay(log, offset, max_bytes) for offset, max_bytes in story.reads)
    )

    # Then each has found all that is left from its offset on, and memory is as it may be
    ordered = sorted(expected)
    for (offset, _), found in zip(story.reads, replays, strict=True):
        first = bisect_left(ordered, offset)
        is_in_empty_batch = first > 0 and found[:1] == [ordered[first - 1]]
        assert found == ordered[first - is_in_empty_batch :]
        assert not is_in_empty_batch or ordered[first - 1] in story.removed
    assert bench.blocks._size <= story.cache_bytes
    assert bench.blocks._kept <= bench.blocks._size
    await bench.close()
    assert bench.blocks._size == sum(get.size for get in bench.blocks._gets)


@given(story=stories())
def test_consumers_read_all_that_is_left_in_order(story: Story) -> None:
    with pytest.MonkeyPatch.context() as small:
        small.setattr(segment_encoder, "BLOCK_BYTES", BLOCK_BYTES)
        small.setattr(read_plan, "GET_BYTES", GET_BYTES)
        # debug mode would note for each task where it was made, and take twice the time
        asyncio.run(tell(story), debug=False)
