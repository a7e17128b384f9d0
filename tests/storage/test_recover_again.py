"""Recovery of a store whose gaps an earlier one has closed; something was put back meanwhile."""

from collections.abc import AsyncIterator, Callable

import pytest

from storage.errors import ObjectStoreUnavailable
from storage.recovery.recover_postgres import EmptyDatabase
from storage.segment_entry import SegmentEntry
from tests.storage.stored_log import StoredLog, stored_log
from tests.storage.test_recover_changed import keyed, records_of
from tests.storage.test_recover_gap_endings import aborted_of, at, marker, put_segment, tell
from tests.storage.test_recover_gap_endings import batch as batch_at
from tests.storage.test_recover_gaps import step_over
from tests.storage.test_recover_store import extents, recover, sweep


@pytest.fixture
async def log() -> AsyncIterator[StoredLog]:
    """An empty log."""
    async with stored_log() as opened:
        yield opened


@pytest.fixture
async def built(log: StoredLog) -> list[SegmentEntry]:
    """Rows of four segments of two records each, in objects of their own."""
    for number in range(4):
        await log.write(b"%300d" % number, b"more")  # a segment of its own
        await log.build()
    await sweep(log)
    return await log.rows()


def take_away(log: StoredLog, *paths: str) -> Callable[[], None]:
    """Remove objects; return what puts them back."""
    contents = {path: log.content(path) for path in paths}
    for path in paths:
        log.spoil(path, None)

    def put_back() -> None:
        for path, content in contents.items():
            log.spoil(path, content)

    return put_back


async def test_segments_that_were_put_back_are_there(
    log: StoredLog, built: list[SegmentEntry]
) -> None:
    # Given a store that lacked two segments when it was recovered
    before, rows = await records_of(log), await extents(log)
    put_back = take_away(log, built[1].path, built[2].path)
    assert (await recover(log)).topics[0].lost == [(0, 2, 5)]

    # When they are put back, and the index is recovered again, then they are where they were
    put_back()
    report = await recover(log)
    assert await records_of(log) == before
    assert await extents(log) == rows
    assert report.topics[0].lost == []
    assert report.unneeded == 1  # what stood for them

    # And when one of them goes again, then only its offsets are lost
    log.spoil(built[1].path, None)
    assert (await recover(log)).topics[0].lost == [(0, 2, 3)]
    assert await extents(log) == [(0, 1, True), (2, 3, True), (4, 5, True), (6, 7, True)]


@pytest.mark.parametrize("tells", [False, True])
async def test_objects_of_a_writer_that_were_put_back_are_there(
    log: StoredLog, tells: bool
) -> None:
    # Given rows that the builder has stepped over, whose objects were not there at a recovery
    log.tells = tells
    paths = [await log.write(b"%d" % number, b"more") for number in range(6)]
    await step_over(log, *paths[1:3])
    before = await records_of(log)
    put_back = take_away(log, *paths[1:3])
    await recover(log)

    # When they are put back, and the index is recovered again, then they are where they were
    put_back()
    report = await recover(log)
    assert await records_of(log) == before
    assert (report.topics[0].lost, report.topics[0].moved) == ([], 0)


async def test_nothing_is_stored_where_a_recovery_fails(
    log: StoredLog, built: list[SegmentEntry], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a store that lacks a segment, and a database that fails at the end
    log.spoil(built[1].path, None)
    stored = set(log.objects._objects)

    async def fail(_: EmptyDatabase) -> int:
        raise ObjectStoreUnavailable("just then")

    # When it is recovered, then the store is as it was
    with monkeypatch.context() as patched:
        patched.setattr(EmptyDatabase, "finish", fail)
        with pytest.raises(ObjectStoreUnavailable):
            await recover(log)
    assert set(log.objects._objects) == stored

    # And what is stored when it succeeds, is named by a row
    await recover(log)
    (gap,) = set(log.objects._objects) - stored
    assert [row.path for row in await log.rows()][1] == gap


async def test_offsets_that_were_given_stay_taken(
    log: StoredLog, built: list[SegmentEntry]
) -> None:
    # Given a gap that a recovery closed, and all segments behind it are lost since
    log.spoil(built[1].path, None)
    await recover(log)
    for row in built[2:]:
        log.spoil(row.path, None)

    # When the index is recovered again, then the log does not end before the gap does
    report = await recover(log)
    assert (report.topics[0].records, report.topics[0].lost) == (4, [(0, 2, 3)])

    # Nor if nothing but that is left
    log.spoil(built[0].path, None)
    await recover(log)
    offsets = (await log.metadata.partition_offsets([log.partition()]))[log.partition()]
    assert offsets.high_watermark == 4


@pytest.mark.parametrize("is_put_back", [False, True])
async def test_an_end_that_only_a_gap_tells_is_kept(log: StoredLog, is_put_back: bool) -> None:
    # Given a log that lost a segment with the end of an aborted transaction, which an object told
    # of at a recovery, and no object does any more
    await put_segment(log, 0, 0, [batch_at(0, b"a", transactional=True)])
    await put_segment(log, 1, 2, [at(1, marker(committed=False)), batch_at(2, b"b")])
    await put_segment(log, 3, 3, [batch_at(3, b"c")])
    await tell(log, (1, False))
    (lost,) = [path for path in log.objects._objects if "00000001-" in path]
    put_back = take_away(log, lost)
    await recover(log)
    await sweep(log)
    if is_put_back:
        put_back()

    # When the index is recovered again, then it ends there as it had ended
    report = await recover(log)
    assert report.topics[0].unfinished == 0
    assert report.topics[0].lost == ([] if is_put_back else [(0, 2, 2)])
    assert await aborted_of(log) == [(0, 1)]
    assert list(await records_of(log)) == ([0, 1, 2, 3] if is_put_back else [0, 1, 3])


async def test_a_gap_does_not_tell_what_its_topic_is_like(
    log: StoredLog, built: list[SegmentEntry]
) -> None:
    # Given a newest segment that was not there when a gap was closed, and its topic's new configs
    log.spoil(built[1].path, None)
    await log.write(b"%300d" % 4)
    newest = await log.build(configs={"retention.ms": "7"})
    put_back = take_away(log, newest.path)
    await sweep(log)
    await recover(log)
    assert log.topic.configs == {"retention.ms": "-1"}

    # When it is put back, and the index recovered again, then these are the topic's configs
    put_back()
    await recover(log)
    assert log.topic.configs == {"retention.ms": "7"}


async def test_the_builder_does_not_merge_what_stands_for_a_gap(log: StoredLog) -> None:
    # Given a gap that was closed between segments of which the last one is small
    await log.write(b"%300d" % 0)
    await log.build()
    await log.write(b"%300d" % 1)
    lost = await log.build()
    await log.write(b"2")
    await log.build()
    await sweep(log)
    put_back = take_away(log, lost.path)
    await recover(log)

    # When that is merged with what follows, and what was lost is put back
    log.ends[log.partition()] = 3
    await log.write(b"3", b"4")
    await log.build()
    assert await extents(log) == [(0, 0, True), (1, 1, True), (2, 4, True)]
    put_back()

    # Then it is there when the index is recovered again
    assert (await recover(log)).topics[0].lost == []
    assert lost.path in [row.path for row in await log.rows()]
    assert len(await records_of(log)) == 5


async def test_compaction_does_not_merge_what_stands_for_a_gap(log: StoredLog) -> None:
    # Given a gap that was closed, with the end of a transaction in it, in a log that is compacted
    await put_segment(log, 0, 0, [keyed((b"a", b"v"))])
    await put_segment(log, 1, 2, [at(1, keyed((b"b", b"v")))])
    await put_segment(log, 3, 3, [at(3, keyed((b"c", b"v")))])
    await put_segment(log, 4, 4, [at(4, keyed((b"d", b"v")))])
    await tell(log, (2, True))
    (lost,) = [path for path in log.objects._objects if "00000001-" in path]
    put_back = take_away(log, lost)
    await recover(log)
    await log.compact()
    assert await extents(log) == [(0, 0, True), (1, 2, True), (3, 4, True)]

    # When what was lost is put back, and the index recovered again, then it is there
    put_back()
    assert (await recover(log)).topics[0].lost == []
    assert lost in [row.path for row in await log.rows()]
    assert set(await records_of(log)) == {0, 1, 3, 4}
