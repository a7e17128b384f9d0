"""Recovery of what the builder has stepped over, and of what is missing at the start of a log."""

import json
from collections.abc import AsyncIterator, Callable
from typing import Final

import pytest

from protocol.batch import TRANSACTIONAL_BIT
from protocol.ids import Partition
from protocol.records import Record, build_batch
from storage.recovery.recover_tail import TAIL_OFFSETS
from storage.recovery.recover_unbuilt import BLOCKS_OF_A_TIME
from tests.storage.stored_log import HOUR_MS, StoredLog, stored_log
from tests.storage.test_recover_changed import records_of
from tests.storage.test_recover_store import extents, recover, sweep

FOREVER: Final = {"retention.ms": "-1"}


@pytest.fixture
async def log() -> AsyncIterator[StoredLog]:
    """An empty log."""
    async with stored_log() as opened:
        yield opened


def of_producer(producer_id: int, value: bytes, *, attributes: int = 0) -> bytes:
    """Return the first batch of a producer."""
    return build_batch(
        [Record(offset_delta=0, value=value)],
        attributes=attributes,
        base_timestamp_ms=1000,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
    )


def batch_of_time(timestamp_ms: int, *values: bytes) -> bytes:
    """Return a batch of a time, of a producer without an id."""
    records = [Record(offset_delta=delta, value=value) for delta, value in enumerate(values)]
    return build_batch(records, base_timestamp_ms=timestamp_ms)


async def step_over(log: StoredLog, *paths: str) -> None:
    """Build all but these objects, which are put back afterwards; the others are swept."""
    contents = {path: log.content(path) for path in paths}
    for path in paths:
        log.spoil(path, None)
    await log.build()
    for path, content in contents.items():
        log.spoil(path, content)
    await sweep(log)


@pytest.mark.parametrize("numbers", [[0], [1], [0, 1], [0, 2], [1, 2, 4]])
async def test_what_was_stepped_over_is_where_it_was(log: StoredLog, numbers: list[int]) -> None:
    # Given rows that the builder has stepped over, and whose objects are whole again
    paths = [await log.write(b"%d" % number, b"more") for number in range(6)]
    await step_over(log, *(paths[number] for number in numbers))
    before, rows = await records_of(log), await extents(log)
    assert len(before) == 12

    # When the index is recovered, then they are there, and their objects are kept
    report = await recover(log)
    assert await records_of(log) == before
    assert await extents(log) == rows
    (topic,) = report.topics
    assert (topic.lost, topic.moved, report.unneeded) == ([], 0, 0)
    assert topic.built_records == 12 - 2 * len(numbers)


def leads_anew(log: StoredLog) -> None:
    log.change_leader()


def missed_a_marker(log: StoredLog) -> None:
    log.ends[log.partition()] -= 1


@pytest.mark.parametrize("happens", [leads_anew, missed_a_marker])
async def test_what_did_not_know_its_place_is_where_it_was(
    log: StoredLog, happens: Callable[[StoredLog], None]
) -> None:
    # Given a row whose writer did not know where the log ended, and others behind it
    await log.write(b"a", b"b")
    happens(log)
    lost = await log.write(b"c")
    following = await log.write(b"d")
    await log.write(b"e")
    await step_over(log, lost, following)
    before = await records_of(log)

    # When the index is recovered, then it is where it was
    report = await recover(log)
    assert await records_of(log) == before
    assert (report.topics[0].lost, report.topics[0].moved) == ([], 0)


async def test_what_is_lost_beside_it_is_told(log: StoredLog) -> None:
    # Given three rows that were stepped over, of which the outer ones are lost for good
    paths = [await log.write(b"%d" % number) for number in range(6)]
    await step_over(log, *paths[1:4])
    before = await records_of(log)
    log.spoil(paths[1], None)
    log.spoil(paths[3], None)

    # When the index is recovered, then empty segments have their offsets
    report = await recover(log)
    del before[1], before[3]
    assert await records_of(log) == before
    assert report.topics[0].lost == [(0, 1, 1), (0, 3, 3)]


async def test_what_was_never_committed_does_not_take_its_place(log: StoredLog) -> None:
    # Given an upload whose leader died, and what the next one committed in its place; that was
    # stepped over
    await log.write(b"a")
    await log.write(b"never", commit=False)
    never = max(path for path in log.objects._objects if path.startswith("wal/"))
    log.leader_epoch += 1
    lost = await log.write(b"b")
    await log.write(b"c")
    content = log.content(never)
    await step_over(log, lost)
    log.spoil(never, content)
    before = await records_of(log)

    # When the index is recovered, then that is there, and nothing else
    await recover(log)
    assert await records_of(log) == before


@pytest.mark.parametrize("is_back", [True, False])
@pytest.mark.parametrize("is_swept", [True, False])
@pytest.mark.parametrize("is_far_back", [True, False])
async def test_what_is_built_behind_where_it_was_expected_is_there_once(
    log: StoredLog, is_back: bool, is_swept: bool, is_far_back: bool
) -> None:
    # Given a writer that missed another broker's append, and had begun its next upload before it
    # heard of it: both are expected one offset too low. The first was stepped over
    await log.write(b"a")
    await log.write(b"another's")
    log.ends[log.partition()] -= 1
    lost = await log.write(b"b")
    log.ends[log.partition()] -= 1
    await log.write(b"c")
    content = log.content(lost)
    log.spoil(lost, None)
    await log.build()
    await log.store([batch_of_time(9000, *[b"d"] * (TAIL_OFFSETS if is_far_back else 3))])
    await log.build()
    log.spoil(lost, content)
    before = await records_of(log)
    if is_swept:
        await sweep(log)
    if not is_back:
        log.spoil(lost, None)
        del before[2]

    # When the index is recovered, then what is built does not take its place
    report = await recover(log)
    assert await records_of(log) == before
    assert report.topics[0].lost == ([] if is_back else [(0, 2, 2)])
    assert report.topics[0].moved == 0


async def test_what_is_built_far_from_its_time_is_there_once(log: StoredLog) -> None:
    # Given such a log, where what is built behind the gap is older than all before it
    for number in range(BLOCKS_OF_A_TIME):
        await log.write(b"%300d" % number)  # a segment of its own
        await log.build()
    log.ends[log.partition()] -= 1
    lost = await log.write(b"b")
    log.ends[log.partition()] -= 1
    await log.store([batch_of_time(1, b"c")])
    log.spoil(lost, None)
    await log.build()
    await log.store([batch_of_time(9000, *[b"d"] * TAIL_OFFSETS)])
    await log.build()

    # When the index is recovered, then it is not put into the gap
    report = await recover(log)
    values = [value for _, value in (await records_of(log)).values()]
    assert values.count(b"c") == 1
    assert report.topics[0].lost == [(0, BLOCKS_OF_A_TIME, BLOCKS_OF_A_TIME)]


async def test_what_finds_no_room_is_at_the_end(log: StoredLog) -> None:
    # Given two uploads of one leader that were expected at the same offset; nobody knows that the
    # first was not committed. The other one was stepped over
    await log.write(b"a")
    await log.write(b"unknown", commit=False)
    unknown = max(path for path in log.objects._objects if path.startswith("wal/"))
    lost = await log.write(b"b")
    await log.write(b"c")
    content = log.content(unknown)
    await step_over(log, lost)
    log.spoil(unknown, content)
    before = await records_of(log)

    # When the index is recovered, then the first is not left out, and that is told
    report = await recover(log)
    assert await records_of(log) == {**before, 3: (None, b"unknown")}
    assert (report.topics[0].lost, report.topics[0].moved) == ([], 1)
    assert not report.is_whole


async def test_what_finds_no_room_and_cannot_come_later_is_told(log: StoredLog) -> None:
    # Given a row that was stepped over, of a producer that went on; and an upload of the same
    # leader that was expected there as well
    await log.write(b"a", producer=(40, 2, 0))
    lost = await log.write(b"b", producer=(40, 2, 1))
    log.ends[log.partition()] -= 1
    await log.write(b"unknown", commit=False)
    unknown = max(path for path in log.objects._objects if path.startswith("wal/"))
    log.ends[log.partition()] += 1
    await log.write(b"c", producer=(40, 2, 2))
    content = log.content(unknown)
    await step_over(log, lost)
    log.spoil(unknown, content)

    # When the index is recovered, and that has taken its place, then its object is named
    report = await recover(log)
    assert [value for _, value in (await records_of(log)).values()] == [b"a", b"unknown", b"c"]
    assert [lost in line for line in report.left_out] == [True]


async def test_what_was_sent_again_is_there_once(log: StoredLog) -> None:
    # Given a batch whose first upload was never committed, and whose second one is built; the first
    # was expected where a segment is lost now
    batch = of_producer(40, b"x")
    await log.write(b"a")
    repeated = await log.store([batch], commit=False)
    await log.write(b"b")
    lost = await log.build()
    await log.store([batch])
    for value in (b"c", b"d", b"e"):
        await log.write(value)
    await log.build()
    log.spoil(lost.path, None)
    for path in [path for path in log.objects._objects if path.startswith("wal/")]:
        if path != repeated:
            log.spoil(path, None)

    # When the index is recovered, then it is not there twice
    await recover(log)
    values = [value for _, value in (await records_of(log)).values()]
    assert values == [b"x", b"c", b"d", b"e"]


async def test_producers_and_transactions_of_it_are_known(log: StoredLog) -> None:
    # Given two producers whose last batches were stepped over: one of them is in a transaction
    await log.write(b"a", producer=(40, 2, 0))
    lost = await log.write(b"b", producer=(40, 2, 1))
    also_lost = await log.store([of_producer(41, b"open", attributes=TRANSACTIONAL_BIT)])
    await log.write(b"c")
    partition = log.partition()
    await step_over(log, lost, also_lost)

    # When the index is recovered
    report = await recover(log)

    # Then what they send again is recognised, and the transaction is aborted
    states = (await log.metadata.producer_states([partition]))[partition]
    assert {one.producer_id: one.last_sequence for one in states} == {40: 1, 41: 0}
    assert report.topics[0].unfinished == 1
    aborted = await log.metadata.aborted_transactions(partition, 0, 9, 10, aborted_count=1)
    assert [(one.first_offset, one.last_offset) for one in aborted.transactions] == [(2, 4)]


async def lose_start(log: StoredLog, configs: dict[str, str]) -> None:
    """Leave a log whose first built segment is gone, while a writer's object of it is there."""
    first = await log.write(b"a")
    await log.write(b"b")
    lost = await log.build(configs=configs)
    for value in (b"c", b"d", b"e"):
        await log.write(value)
    await log.build(configs=configs)
    log.spoil(lost.path, None)
    for path in [path for path in log.objects._objects if path.startswith("wal/")]:
        if path != first:
            log.spoil(path, None)


async def test_what_is_missing_at_the_start_is_told(log: StoredLog) -> None:
    await lose_start(log, FOREVER)
    report = await recover(log)
    assert [value for _, value in (await records_of(log)).values()] == [b"a", b"c", b"d", b"e"]
    assert report.topics[0].lost == [(0, 1, 1)]


@pytest.mark.parametrize(
    "configs",
    [{"retention.ms": str(HOUR_MS)}, {"retention.ms": "-1", "retention.bytes": "100"}],
    ids=json.dumps,
)
async def test_what_retention_took_away_does_not_come_back(
    log: StoredLog, configs: dict[str, str]
) -> None:
    # Given records that are older than they are kept, or more
    await lose_start(log, configs)

    # When the index is recovered, then the log begins where it began, and nothing is lost
    report = await recover(log)
    assert [value for _, value in (await records_of(log)).values()] == [b"c", b"d", b"e"]
    assert report.topics[0].lost == []
    offsets = (await log.metadata.partition_offsets([log.partition()]))[log.partition()]
    assert offsets.log_start_offset == 2


async def test_what_retention_may_have_taken_away_is_not_told(log: StoredLog) -> None:
    # Given a topic that follows its cluster's retention, which is not known
    await lose_start(log, {"segment.bytes": "1000"})

    # When the index is recovered, then what is there is back: retention shall tell
    report = await recover(log)
    assert [value for _, value in (await records_of(log)).values()] == [b"a", b"c", b"d", b"e"]
    assert report.topics[0].lost == []


async def test_a_log_without_segments_tells_what_is_missing_at_its_start(log: StoredLog) -> None:
    # Given a partition of which nothing is built, and whose first object is lost
    await log.write(b"built")
    await log.build()
    lost = await log.write(b"a", index=1)
    await log.write(b"b", index=1)
    log.spoil(lost, None)
    report = await recover(log)
    assert report.topics[0].lost == [(1, 0, 0)]
    partition = Partition(log.topic.topic_id, 1)
    offsets = (await log.metadata.partition_offsets([partition]))[partition]
    assert (offsets.log_start_offset, offsets.high_watermark) == (1, 2)
