"""Which of segments that contradict each other are recovered, and what becomes of the others."""

from collections.abc import AsyncIterator

import pytest

from storage.fsck.orphans import OrphanNeeded
from storage.recovery.recover_segments import choose_segments
from storage.segment_encoder import SegmentEncoder
from tests.storage.stored_log import HOUR_MS, StoredLog, stored_log
from tests.storage.test_reconcile import reconciled
from tests.storage.test_recover_placement import segment
from tests.storage.test_recover_store import extents, recover, sweep


@pytest.fixture
async def log() -> AsyncIterator[StoredLog]:
    async with stored_log() as opened:
        yield opened


def test_a_segment_does_not_give_way_to_one_that_was_never_named() -> None:
    # Given a compacted segment, and one that was built of the rows before that, and came too late
    for last, start, end in [(999_999, 999_990, 1_000_004), (199, 100, 250)]:
        compacted, abandoned = segment(0, last, 10), segment(start, end, 11)

        # Then it is the compacted one, without which most would be lost
        assert choose_segments([compacted, abandoned]) == [compacted]


async def abandon(log: StoredLog) -> str:
    """Store a segment that is never named; return its path."""
    row = await log.build()
    abandoned = SegmentEncoder(
        topic_id=log.topic.topic_id, partition=0, topic=log.policy(), start_offset=0
    )
    path = row.path.rpartition("/")[0] + "/00000000-00000005.seg"
    await log.objects.put(path, abandoned.finish(end_offset=5).parts)
    log.spoil(row.path, None)
    return path


async def test_a_segment_from_before_the_log_is_told_and_stays(log: StoredLog) -> None:
    # Given a segment that was never named, and one that reaches into it, and has more
    await log.write(b"a", b"b", b"c", b"d")
    path = await abandon(log)
    await log.write(b"e", b"f", b"g", b"h", b"i", b"j", b"k", b"l")
    await log.build()
    await sweep(log)

    # When the index is recovered, then it is told that something is only there
    report = await recover(log)
    assert await extents(log) == [(4, 11, True)]
    (told,) = report.left_out
    assert told.startswith(f"orders: {path}, which contradicts others")
    assert not report.is_whole

    # And nobody deletes it, whoever looks for what is not needed
    assert report.unneeded == 0
    assert await log.metadata.known_objects([path]) == set()
    log.ahead_ms = 3 * HOUR_MS
    with pytest.raises(OrphanNeeded, match=f"{path} has no row, .* that the log lacks: 0 to 3"):
        await reconciled(log)


async def test_a_segment_that_goes_on_behind_the_log_is_told_and_stays(log: StoredLog) -> None:
    # Given a segment that was never named, and one that reaches into it, and has less
    await log.write(b"a", b"b", b"c", b"d")
    await abandon(log)
    await log.write(b"e", b"f", b"g", b"h")
    path = (await log.build()).path
    await sweep(log)

    # When the index is recovered, then it is told that something is only there
    report = await recover(log)
    assert (await extents(log))[0] == (0, 5, True)
    assert report.topics[0].lost == [(0, 6, 7)]
    (told,) = report.left_out
    assert told.startswith(f"orders: {path}, which contradicts others")

    # And nobody deletes it
    log.ahead_ms = 3 * HOUR_MS
    with pytest.raises(OrphanNeeded, match=f"{path} has no row, .* that the log lacks: 6 to 7"):
        await reconciled(log)
