"""What is recovered of a store that has lost something, or has too much."""

import itertools
from collections.abc import AsyncIterator
from dataclasses import replace
from uuid import uuid4

import pytest

from protocol.ids import Partition
from storage.errors import CorruptObject
from storage.metadata.metadata_postgres import PostgresMetadata
from storage.objects.store_marker import MARKER, read_marker
from storage.recovery.recover import Recovery
from storage.recovery.recover_postgres import DatabaseNotEmpty, EmptyDatabase
from storage.recovery.recover_report import RecoveryReport
from storage.upkeep.segment_rows import read_rows
from storage.wal_index import WalEnding, WalIndex, parse_index, parse_index_length
from tests.storage.stored_log import CONFIG, HOUR_MS, StoredLog, stored_log
from tests.support.postgres import create_empty_database


@pytest.fixture
async def log() -> AsyncIterator[StoredLog]:
    """Three segments of four records each, and two objects of the writer behind them."""
    async with stored_log() as opened:
        for _ in range(3):
            await opened.write(b"a", b"b")
            await opened.write(b"c", b"d")
            await opened.build()
        await opened.write(b"e", b"f")
        await opened.write(b"g", b"h")
        yield opened


async def recover(
    log: StoredLog, *, dry_run: bool = False, dsn: str | None = None
) -> RecoveryReport:
    """Recover into a database of its own, which the log has from then on; it has to be right."""
    dsn = dsn or await create_empty_database()
    async with EmptyDatabase.open(dsn, CONFIG, keep=not dry_run) as database:
        recovery = Recovery(
            objects=log.objects, database=database, now_ms=log.now_ms, dry_run=dry_run
        )
        async for _ in recovery.run():
            pass
    if not dry_run:
        await log.metadata.close()
        log.dsn, log.metadata = dsn, await PostgresMetadata.open(dsn, CONFIG)
        if recovery.report.topics:
            changes = await log.metadata.topic_changes(0)
            log.topic = next(topic for topic in changes.changed if topic.name == log.topic.name)
        check = await log.fsck(deep=True)
        assert not check.findings.damaged, check.findings.examples
    return recovery.report


async def sweep(log: StoredLog) -> None:
    """Remove the writer's objects that are built into segments."""
    named = {row.path for row in await log.rows()}
    for path in [path for path in log.objects._objects if path.startswith("wal/")]:
        if path not in named:
            log.spoil(path, None)


async def extents(log: StoredLog) -> list[tuple[int, int, bool]]:
    return [(row.start_offset, row.end_offset, bool(row.index_length)) for row in await log.rows()]


async def values(log: StoredLog, index: int = 0) -> dict[int, int]:
    """Return base offsets of all batches, with their records."""
    found = {}
    async for part in read_rows(log.objects, await log.rows(index)):
        for batch in part.batches:
            found[int.from_bytes(batch[:8])] = int.from_bytes(batch[57:61])
    return {offset: records for offset, records in found.items() if records}


async def test_all_is_as_it_was(log: StoredLog) -> None:
    before, cluster_id = await extents(log), await log.metadata.cluster_id()
    topic = log.topic
    report = await recover(log)
    assert await extents(log) == before
    assert await log.metadata.cluster_id() == cluster_id == report.cluster_id
    mark = await read_marker(log.objects)
    assert mark is not None
    assert await log.metadata.store_id() == mark.store_id
    assert log.topic == topic
    assert log.topic.configs == {"retention.ms": "-1"}
    folder = await log.metadata.topic_folder(topic.topic_id)
    assert folder == "topics/orders"
    assert (report.unreadable, report.left_out) == ([], [])
    # Objects that were built into segments, and not removed yet, wait for the sweeper.
    assert report.unneeded == report.uploads - 2 == 6
    assert await log.metadata.doom_abandoned(0, 100) == 6
    # The next leader's epoch is newer than any before.
    newer = "(SELECT broker_generation > 3 FROM streamhouse_internal.cluster)"
    await log.sql(f"DO $$ BEGIN ASSERT {newer}; END $$")


async def test_what_is_lost_leaves_a_gap_and_moves_nothing(log: StoredLog) -> None:
    # Given a store that lost a segment in the middle, and an object of the writer
    rows = await log.rows()
    log.spoil(rows[1].path, None)
    log.spoil(rows[3].path, None)
    await sweep(log)

    # When it is looked at, then nothing is stored
    stored = set(log.objects._objects)
    report = await recover(log, dry_run=True)
    assert set(log.objects._objects) == stored

    # When it is recovered, then what is lost is told, and all the rest is where it was
    report = await recover(log)
    (topic,) = report.topics
    assert topic.lost == [(0, 4, 7), (0, 12, 13)]
    assert (topic.moved, topic.records, topic.built_records) == (0, 16, 12)
    assert await values(log) == dict.fromkeys([0, 1, 2, 3, 8, 9, 10, 11, 14, 15], 1)
    assert await extents(log) == [
        *((0, 3, True), (4, 7, True), (8, 11, True)),
        *((12, 13, False), (14, 15, False)),
    ]

    # And the log goes on behind it, and is built
    log.ends[log.partition()] = 16
    await log.write(b"i")
    await log.build()
    assert (await values(log))[16] == 1


async def test_damaged_objects_are_told_and_left_alone(log: StoredLog) -> None:
    rows = await log.rows()
    await sweep(log)
    for row in (rows[1], rows[3], rows[4]):
        log.spoil(row.path, log.content(row.path)[:-1])
    await log.objects.put("wal/00/without-index", [b"batches"])
    report = await recover(log)
    assert len(report.unreadable) == 4
    assert {text.partition(":")[0] for text in report.unreadable} == {
        *(row.path for row in (rows[1], rows[3], rows[4])),
        "wal/00/without-index",
    }
    # What a segment had is lost; what objects of the writer had is not known to have been there.
    assert report.topics[0].lost == [(0, 4, 7)]
    assert list(await values(log)) == [0, 1, 2, 3, 8, 9, 10, 11]
    known = await log.metadata.known_objects([row.path for row in rows])
    assert known == {rows[0].path, rows[2].path}


async def test_a_batch_with_a_wrong_checksum_is_left_out(log: StoredLog) -> None:
    row = (await log.rows())[3]
    content = bytearray(log.content(row.path))
    content[row.start + 65] ^= 1
    log.spoil(row.path, bytes(content))
    report = await recover(log)
    assert report.topics[0].lost == [(0, 12, 13)]
    assert "checksum of the batch" in report.unreadable[0]
    assert list(await values(log))[-2:] == [14, 15]


async def test_an_upload_that_was_tried_again_is_there_once(log: StoredLog) -> None:
    (*_, last) = await log.rows()
    await log.objects.put("wal/00/again", [log.content(last.path)])
    report = await recover(log)
    assert report.repeated == 1
    assert report.topics[0].records == 16
    assert len(await values(log)) == 16


async def test_what_a_writer_expected_too_far_back_is_there(
    log: StoredLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a log of which only the end is looked at; and records of a writer that had not heard of
    # what others wrote, and expected theirs where others are built
    monkeypatch.setattr("storage.recovery.recover_tail.TAIL_OFFSETS", 1)
    log.ends[log.partition()] = 2
    await log.write(b"late", b"later")
    before = await extents(log)

    # When the index is recovered, then they are where they were, and nothing is there twice
    report = await recover(log)
    assert await extents(log) == before
    assert report.topics[0].records == 18


def index_of(content: bytes) -> WalIndex:
    return parse_index(content[-parse_index_length(content) :])


async def test_what_is_built_before_the_end_that_is_looked_at_is_there_once(
    log: StoredLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given an object of which all is built, and none of the writer's objects behind it
    monkeypatch.setattr("storage.recovery.recover_tail.TAIL_OFFSETS", 1)
    first, *others = sorted(
        (path for path in log.objects._objects if path.startswith("wal/")),
        key=lambda path: index_of(log.content(path)).sequence,
    )
    before = [row for row in await extents(log) if row[2]]
    for path in others:
        log.spoil(path, None)

    # When the index is recovered, then it is not appended again
    await recover(log)
    assert first in log.objects._objects
    assert await extents(log) == before


async def test_producers_go_on_where_they_were(log: StoredLog) -> None:
    # Given an idempotent producer with batches in segments and behind them
    for number in range(4):
        await log.write(b"x", index=1, producer=(40, 2, number))
    await log.build(1)
    for number in range(4, 7):
        await log.write(b"y", index=1, producer=(40, 2, number))
    partition = Partition(log.topic.topic_id, 1)
    before = (await log.metadata.producer_states([partition]))[partition]

    # When the index is recovered, then its state is what it was
    report = await recover(log)
    after = (await log.metadata.producer_states([partition]))[partition]
    assert [replace(one, last_timestamp_ms=0) for one in after] == [
        replace(one, last_timestamp_ms=0) for one in before
    ]
    # and what it repeats is recognised, what it sends next is appended
    repeated = await log.write(b"y", index=1, producer=(40, 2, 6), commit=False)
    assert repeated
    log.ends[partition] = 7
    await log.write(b"z", index=1, producer=(40, 2, 7))
    assert log.ends[partition] == 8
    # Nobody is given its id.
    assert await log.metadata.allocate_producer_ids(1) == report.next_producer_id > 40


async def test_an_id_that_is_made_up_takes_no_ids_of_producers(log: StoredLog) -> None:
    # Given a client with the last id that there can be, and another cluster's
    await log.write(b"x", producer=(2**63 - 1, 0, 0))
    await log.write(b"x", producer=(1 << 60, 0, 0))

    # When the index is recovered, then there are ids to give out, of those that a cluster has
    report = await recover(log)
    assert report.next_producer_id < 1 << 52
    assert await log.metadata.allocate_producer_ids(1) == report.next_producer_id


async def test_of_topics_of_one_name_the_newest_is_recovered(log: StoredLog) -> None:
    # Given a topic that was deleted, its bytes not yet, and made again
    old = log.topic
    await log.metadata.delete_topic(old.topic_id)
    log.ahead_ms = 1000
    log.topic = await log.metadata.create_topic(
        "orders", partition_count=2, replication_factor=1, configs={}
    )
    new = log.topic
    await log.write(b"new")

    # When it is recovered
    report = await recover(log)

    # Then it is the new one, nobody but the writer's object told of it
    assert log.topic.topic_id == new.topic_id
    assert report.left_out == [f"{old.topic_id}: deleted, and orders made again"]
    assert "retention.ms=-1" in report.topics[0].note
    assert log.topic.configs == {"retention.ms": "-1"}
    assert list(await values(log)) == [0]
    # and its segments will not meet the old ones
    row = await log.build()
    assert row.path.startswith(f"topics/orders.{new.topic_id.hex[:8]}/")


@pytest.mark.parametrize("is_late", [False, True])
async def test_a_deleted_topic_does_not_come_back_in_place_of_a_new_one(
    log: StoredLog, is_late: bool
) -> None:
    # Given a topic that was made again, and an object of the old one from a writer whose clock was
    # ahead; or that was stored after those of the new one, and one that knows of no such topic
    log.objects._now_ms = itertools.count(log.now_ms(), HOUR_MS).__next__
    old, new = log.topic, replace(log.topic, topic_id=uuid4())
    for log.topic in (new, old) if is_late else (old, new):
        log.ahead_ms = HOUR_MS if log.topic is old else 0
        await log.write(b"i", commit=False)
    if is_late:
        log.topic = replace(old, name="")
        await log.tell(WalEnding(0, 0, 100, 7, 0, committed=True, timestamp_ms=1000))
    log.topic, log.ahead_ms = old, 0

    # When it is recovered, then it is the new one
    report = await recover(log)
    assert log.topic.topic_id == new.topic_id
    assert report.left_out == [f"{old.topic_id}: deleted, and orders made again"]


async def test_a_log_that_began_later_begins_there(log: StoredLog) -> None:
    rows = await log.rows()
    log.spoil(rows[0].path, None)
    await sweep(log)
    # Retention took nothing away, which the topic's configs tell.
    assert (await recover(log)).topics[0].lost == [(0, 0, 3)]
    offsets = (await log.metadata.partition_offsets([log.partition()]))[log.partition()]
    assert (offsets.log_start_offset, offsets.high_watermark) == (4, 16)


async def test_only_an_empty_database_is_filled(log: StoredLog) -> None:
    with pytest.raises(DatabaseNotEmpty, match=r"it has 1 topics, .* objects"):
        async with EmptyDatabase.open(log.dsn, CONFIG, keep=True):
            pass


async def test_an_empty_store_gives_an_empty_cluster(log: StoredLog) -> None:
    for path in list(log.objects._objects):
        if path != MARKER:
            log.spoil(path, None)
    report = await recover(log)
    assert (report.topics, report.segments, report.uploads) == ([], 0, 0)


async def test_a_mark_that_cannot_be_read_stops_it(log: StoredLog) -> None:
    log.spoil(MARKER, b"{}")
    with pytest.raises(CorruptObject, match="does not tell a cluster id"):
        await recover(log)
