"""Where recovered logs end: never before an offset of which the store tells that it was given."""

from collections.abc import AsyncIterator, Sequence
from uuid import uuid4

import pytest

from protocol.ids import Partition
from storage.fsck.index_age import check_index_age
from storage.objects.object_paths import wal_path
from storage.partition_offsets import PartitionOffsets
from storage.recovery.recover_told import COUNT_MARGIN
from storage.segment_encoder import SegmentEncoder
from storage.wal_index import NOT_APPENDED, WalEnding, WalIndex, WalPlaces, encode_index
from tests.storage.stored_log import StoredLog, stored_log
from tests.storage.test_recover_changed import records_of
from tests.storage.test_recover_store import recover


@pytest.fixture
async def log() -> AsyncIterator[StoredLog]:
    """An empty log, whose objects tell where earlier ones are."""
    async with stored_log() as opened:
        opened.tells = True
        yield opened


async def tell(
    log: StoredLog,
    *,
    name: str | None = None,
    places: Sequence[WalPlaces] = (),
    endings: Sequence[WalEnding] = (),
) -> None:
    """Store an object without batches, of a writer of its own."""
    writer = uuid4()
    index = WalIndex(
        writer_id=writer,
        sequence=0,
        written_ms=log.now_ms(),
        topics=((log.topic.topic_id, log.topic.name if name is None else name),),
        runs=(),
        places=tuple(places),
        endings=tuple(endings),
    )
    await log.objects.put(wal_path(writer), [encode_index(index)])


async def offsets_of(log: StoredLog, index: int = 0) -> PartitionOffsets:
    partition = Partition(log.topic.topic_id, index)
    return (await log.metadata.partition_offsets([partition]))[partition]


async def empty(log: StoredLog, *paths: str) -> None:
    """Let retention take away all that partition 0 has, and these objects."""
    for path in paths:
        log.spoil(path, None)
    await log.metadata.delete_records({log.partition(): -1})


async def test_an_emptied_log_ends_where_it_ended(log: StoredLog) -> None:
    # Given a log that retention has emptied, and an object of another one that tells of it
    paths = [await log.write(b"a", b"b"), await log.write(b"c", b"d")]
    await log.write(b"other", index=1)
    await empty(log, *paths)
    assert (await offsets_of(log)).high_watermark == 4

    # When the index is recovered
    report = await recover(log)

    # Then a broker starts with it, and gives no offset away again; nobody calls that lost
    await check_index_age(log.metadata, log.objects)
    found = await offsets_of(log)
    assert found.log_start_offset == found.high_watermark == 4 + COUNT_MARGIN
    assert (report.topics[0].lost, report.topics[0].moved) == ([], 0)
    assert report.topics[0].records == 1
    # and the log goes on behind it, and is built
    log.ends[log.partition()] = found.high_watermark
    await log.write(b"more")
    await log.build()
    assert await records_of(log) == {found.high_watermark: (None, b"more")}


async def test_an_emptied_log_ends_behind_the_last_transaction(log: StoredLog) -> None:
    # Given such a log, of which it is told that a transaction ended at its end
    paths = [await log.write(b"a", b"b", producer=(40, 2, 0))]
    await log.write(b"other", index=1)
    await tell(log, endings=[WalEnding(0, 0, 2, 40, 2, True, 1)])
    await empty(log, *paths)

    # When the index is recovered, then nothing can lie behind that
    await recover(log)
    found = await offsets_of(log)
    assert found == (3, 3, *found[2:])
    await check_index_age(log.metadata, log.objects)


async def test_what_nobody_expected_comes_behind_what_is_gone(log: StoredLog) -> None:
    # Given such a log, where another leader went on that did not know its end, and told of nothing
    paths = [await log.write(b"a", b"b"), await log.write(b"c", b"d")]
    await log.write(b"other", index=1)
    log.change_leader()
    await log.write(b"e", b"f")
    for path in paths:
        log.spoil(path, None)

    # When the index is recovered, then it is not where something else was
    report = await recover(log)
    start = 4 + COUNT_MARGIN
    assert await records_of(log) == {start: (None, b"e"), start + 1: (None, b"f")}
    assert (await offsets_of(log)).log_start_offset == start
    assert report.topics[0].lost == []
    await check_index_age(log.metadata, log.objects)


async def test_what_is_gone_at_the_end_is_told(log: StoredLog) -> None:
    # Given a log that lost its last object, of which another one tells
    await log.write(b"a", b"b")
    lost = await log.write(b"c", b"d")
    await log.write(b"other", index=1)
    log.spoil(lost, None)
    before = {0: (None, b"a"), 1: (None, b"b")}

    # When the index is recovered, then that is lost, and its offsets stay taken
    report = await recover(log)
    assert await records_of(log) == before
    assert report.topics[0].lost == [(0, 2, 3)]
    assert (await offsets_of(log)).high_watermark == 4 + COUNT_MARGIN
    await check_index_age(log.metadata, log.objects)


async def test_where_more_is_known_the_log_ends_there(log: StoredLog) -> None:
    # Given a log that lost an object in the middle
    await log.write(b"a", b"b")
    lost = await log.write(b"c", b"d")
    await log.write(b"e")
    await log.write(b"other", index=1)
    log.spoil(lost, None)

    # When the index is recovered, then it ends where it ended
    report = await recover(log)
    assert report.topics[0].lost == [(0, 2, 3)]
    assert (await offsets_of(log)).high_watermark == 5


async def test_a_segment_that_is_not_chosen_tells_where_the_log_ended(log: StoredLog) -> None:
    # Given segments of which the one with fewer offsets ends last
    await log.write(b"a", b"b")
    await log.write(b"c", b"d")
    row = await log.build()
    encoder = SegmentEncoder(
        topic_id=log.topic.topic_id,
        partition=0,
        topic=log.policy(),
        start_offset=3,
    )
    path = row.path.rpartition("/")[0] + "/00000003-00000005.other.seg"
    await log.objects.put(path, encoder.finish(end_offset=5).parts)

    # When the index is recovered, then the log ends behind all of it
    report = await recover(log)
    assert (await offsets_of(log)).high_watermark == 6
    assert report.topics[0].lost == [(0, 4, 5)]
    await check_index_age(log.metadata, log.objects)


async def test_a_topic_that_is_only_told_of_is_there(log: StoredLog) -> None:
    # Given a topic of which nothing is left but what an object tells of its second partition
    await tell(log, places=[(0, 1, 7, (90, 95))])
    await log.metadata.delete_records({log.partition(): -1})

    # When the index is recovered, then it has both, and the second ends behind that
    report = await recover(log)
    assert [(one.name, one.partitions, one.records) for one in report.topics] == [("orders", 2, 0)]
    assert (await offsets_of(log)).high_watermark == 0
    found = await offsets_of(log, 1)
    assert found.log_start_offset == found.high_watermark == 96 + COUNT_MARGIN
    await check_index_age(log.metadata, log.objects)


async def test_a_topic_that_was_deleted_when_it_was_told_of_is_not_there(log: StoredLog) -> None:
    await tell(log, places=[(0, 1, 7, (90, 95))])
    await tell(log, name="", places=[(0, 0, 7, (9,))])
    report = await recover(log)
    assert (report.topics, report.left_out) == ([], [])


async def test_a_partition_that_is_only_told_of_is_there(log: StoredLog) -> None:
    # Given a topic with records of its first partition, and an object that tells of its second
    await log.write(b"a")
    await tell(log, places=[(0, 1, 7, (90, NOT_APPENDED))])

    # When the index is recovered, then both are there
    report = await recover(log)
    assert report.topics[0].partitions == 2
    assert (await offsets_of(log, 1)).high_watermark == 91 + COUNT_MARGIN
    assert await records_of(log) == {0: (None, b"a")}


async def test_what_can_be_read_in_part_ends_where_it_is_told(log: StoredLog) -> None:
    # Given an object of two batches, of which the second is damaged
    path = await log.write(b"a", b"b")
    await log.write(b"other", index=1)
    content = bytearray(log.content(path))
    content[content.index(b"b", content.index(b"a"))] ^= 1
    log.spoil(path, bytes(content))

    # When the index is recovered, then its offset stays taken
    report = await recover(log)
    assert await records_of(log) == {0: (None, b"a")}
    assert report.topics[0].lost == [(0, 1, 1)]
    assert (await offsets_of(log)).high_watermark == 2 + COUNT_MARGIN
