"""Which of segments that contradict each other are recovered, and what becomes of the others."""

from collections.abc import AsyncIterator

import pytest

from storage.recovery.recover_segments import choose_segments
from storage.segment_builder import SegmentBuilder
from tests.storage.stored_log import HOUR_MS, StoredLog, stored_log
from tests.storage.test_recover_placement import segment
from tests.storage.test_recover_store import extents, recover, sweep


@pytest.fixture
async def log() -> AsyncIterator[StoredLog]:
    async with stored_log() as opened:
        yield opened


def test_a_segment_that_never_came_into_the_log_does_not_cost_what_came_later() -> None:
    # Given one that was stored and never named, and what was built instead: all that was before
    # that is deleted meanwhile
    abandoned, later = segment(0, 99, 1), segment(50, 120, 2)

    # Then what was built later is the log, also if others follow, and with less than was abandoned
    assert choose_segments([abandoned, later]) == [later]
    following = segment(121, 200, 3)
    assert choose_segments([abandoned, later, following]) == [later, following]

    # And with all that is before it as long as that is there
    start = segment(0, 49, 0)
    assert choose_segments([start, abandoned, later]) == [start, later]


def test_a_large_segment_is_not_given_up_for_what_was_stored_before_it() -> None:
    # Given one that was never named, and what was merged since; what came behind that is lost
    abandoned, merged, last = segment(90, 150, 1), segment(0, 99, 5), segment(200, 299, 7)

    # Then the merged one is in the log
    assert choose_segments([abandoned, merged]) == [merged]
    assert choose_segments([abandoned, merged, last]) == [merged, last]


def test_what_the_writers_objects_have_as_well_costs_nothing() -> None:
    # Given a compacted segment, and one that reaches into it and on, and was never named
    compacted, abandoned = segment(0, 49, 2), segment(30, 120, 3)

    # Then it is the compacted one if the rest is in the writers' objects
    assert choose_segments([compacted, abandoned], [(50, 120)]) == [compacted]
    assert choose_segments([compacted, abandoned], [(80, 120), (40, 90)]) == [compacted]

    # And what is built is in the log, though its writers' objects are still there
    both = [compacted, segment(50, 120, 4)]
    assert choose_segments(both, [(0, 130)]) == both


async def test_a_segment_that_is_left_out_is_told_and_stays(log: StoredLog) -> None:
    # Given a segment that was stored and never named, and what was built instead since
    await log.write(b"a", b"b")
    await log.write(b"c", b"d")
    first = await log.build()
    abandoned = SegmentBuilder(
        topic_id=log.topic.topic_id, partition=0, topic=log.policy(), start_offset=0
    )
    path = first.path.rpartition("/")[0] + "/00000000-00000005.seg"
    log.ahead_ms = -HOUR_MS
    await log.objects.put(path, abandoned.finish(end_offset=5).parts)
    log.ahead_ms = 0
    await log.write(b"e", b"f")
    await log.write(b"g", b"h")
    await log.build()
    await sweep(log)
    log.spoil(first.path, None)

    # When the index is recovered, then it is told that something is only there
    report = await recover(log)
    assert await extents(log) == [(4, 7, True)]
    (told,) = report.left_out
    assert told.startswith(f"orders: {path}, which contradicts others")
    assert not report.is_whole

    # And nobody deletes it
    assert report.unneeded == 0
    assert await log.metadata.known_objects([path]) == set()
