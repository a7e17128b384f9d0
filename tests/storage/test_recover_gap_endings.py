"""Transactions of built segments, and of those that are lost: what is aborted, and what is not."""

from collections.abc import AsyncIterator, Sequence
from uuid import uuid4

import pytest

from protocol.batch import TRANSACTIONAL_BIT, set_base_offset
from protocol.control_batch import EndMarker, build_end_marker
from protocol.records import Record, build_batch
from storage.aborted_ranges import aborted_ranges
from storage.aborted_transaction import AbortedTransaction
from storage.objects.object_paths import wal_path
from storage.segment_encoder import SegmentEncoder
from storage.wal_index import WalEnding, WalIndex, WalPlaces, encode_index
from tests.storage.stored_log import StoredLog, stored_log
from tests.storage.test_recover_changed import records_of
from tests.storage.test_recover_store import recover

PRODUCER_ID = 40
FOLDER = "topics/orders/partitions/0/segments"


@pytest.fixture
async def log() -> AsyncIterator[StoredLog]:
    """An empty log."""
    async with stored_log() as opened:
        yield opened


def batch(offset: int, *values: bytes, transactional: bool = False, sequence: int = 0) -> bytes:
    """Return a batch that has its offset; `sequence` is that of a transaction's producer."""
    built = build_batch(
        [Record(offset_delta=delta, value=value) for delta, value in enumerate(values)],
        base_timestamp_ms=1000 + offset,
        attributes=TRANSACTIONAL_BIT if transactional else 0,
        producer_id=PRODUCER_ID if transactional else -1,
        producer_epoch=0 if transactional else -1,
        base_sequence=sequence if transactional else -1,
    )
    return at(offset, built)


def at(offset: int, built: bytes) -> bytes:
    placed = bytearray(built)
    set_base_offset(placed, offset)
    return bytes(placed)


def marker(*, committed: bool) -> bytes:
    one = EndMarker(producer_id=PRODUCER_ID, producer_epoch=0, committed=committed, timestamp_ms=1)
    return build_end_marker(one, leader_epoch=0)


async def put_segment(
    log: StoredLog,
    start: int,
    end: int,
    batches: Sequence[bytes],
    aborted: Sequence[AbortedTransaction] = (),
) -> None:
    """Store a built segment of partition 0."""
    encoder = SegmentEncoder(
        topic_id=log.topic.topic_id, partition=0, topic=log.policy(), start_offset=start
    )
    for one in batches:
        encoder.add(one)
    parts = encoder.finish(end_offset=end, aborted=aborted).parts
    await log.objects.put(f"{FOLDER}/{start:08d}-{end:08d}.seg", parts)


async def tell(
    log: StoredLog, *endings: tuple[int, bool], places: Sequence[tuple[int, int]] = ()
) -> None:
    """Store an object that tells of markers, and of the writer's batches by its sequences."""
    told: list[WalPlaces] = [(0, 0, sequence, (offset,)) for sequence, offset in places]
    index = WalIndex(
        writer_id=log.writer if places else uuid4(),
        sequence=1000,
        written_ms=log.now_ms(),
        topics=((log.topic.topic_id, log.topic.name),),
        runs=(),
        places=tuple(told),
        endings=tuple(
            WalEnding(0, 0, offset, PRODUCER_ID, 0, committed, 1) for offset, committed in endings
        ),
    )
    await log.objects.put(wal_path(uuid4()), [encode_index(index)])


async def aborted_of(log: StoredLog) -> list[tuple[int, int]]:
    found = await aborted_ranges(log.metadata, log.partition(), 0, 10_000)
    return [(one.first_offset, one.last_offset) for one in found]


@pytest.mark.parametrize("is_far_back", [False, True])
@pytest.mark.parametrize("committed", [True, False])
async def test_a_transaction_in_a_gap_ends_as_told(
    log: StoredLog, monkeypatch: pytest.MonkeyPatch, committed: bool, is_far_back: bool
) -> None:
    # Given a log that lost the segment with a transaction and its end, whose records an object has
    if is_far_back:
        monkeypatch.setattr("storage.recovery.recover_tail.TAIL_OFFSETS", 1)
    await put_segment(log, 0, 0, [batch(0, b"a")])
    log.ends[log.partition()] = 1
    await log.store([at(0, batch(1, b"b", transactional=True))], commit=False)
    await tell(log, (2, committed), places=[(0, 1)])
    await put_segment(log, 4, 5, [batch(4, b"c", b"d")])

    # When the index is recovered, then it ends there as it had ended; what is beside it is lost
    report = await recover(log)
    (topic,) = report.topics
    assert (topic.unfinished, topic.lost) == (0, [(0, 3, 3)])
    assert await aborted_of(log) == ([] if committed else [(1, 2)])
    assert list(await records_of(log)) == [0, 1, 2, 4, 5]

    # And so it does when that is recovered again, and nobody tells any more
    for path in [path for path in log.objects._objects if path.startswith("wal/")]:
        if path not in {row.path for row in await log.rows()}:
            log.spoil(path, None)
    report = await recover(log)
    assert report.topics[0].unfinished == 0
    assert await aborted_of(log) == ([] if committed else [(1, 2)])
    assert list(await records_of(log)) == [0, 1, 2, 4, 5]


@pytest.mark.parametrize("committed", [True, False])
async def test_a_transaction_before_a_gap_ends_as_told(log: StoredLog, committed: bool) -> None:
    # Given a log that lost a segment with the end of a transaction, and two others of its producer
    await put_segment(log, 0, 2, [batch(0, b"a", b"b", transactional=True), batch(2, b"c")])
    await tell(log, (3, committed), (5, True), (7, False))
    await put_segment(log, 8, 8, [batch(8, b"d")])

    # When the index is recovered, then only that end ends anything
    report = await recover(log)
    assert (report.topics[0].unfinished, report.topics[0].lost) == (0, [(0, 4, 4), (0, 6, 6)])
    assert await aborted_of(log) == ([] if committed else [(0, 3)])


async def test_nothing_gets_the_offset_of_an_end_in_a_gap(log: StoredLog) -> None:
    # Given a gap with an end of a transaction, and an object whose writer had not heard of that
    await put_segment(log, 0, 0, [batch(0, b"a")])
    log.ends[log.partition()] = 1
    await log.store([at(0, batch(1, b"b"))], commit=False)
    await tell(log, (1, True))
    await put_segment(log, 3, 3, [batch(3, b"c")])

    # When the index is recovered, then its record is behind it
    report = await recover(log)
    found = {offset: value for offset, (_, value) in (await records_of(log)).items()}
    assert (found[0], found[2], found[3]) == (b"a", b"b", b"c")
    assert (report.topics[0].lost, report.topics[0].moved) == ([], 0)


async def test_a_built_transaction_is_aborted_from_its_first_record(
    log: StoredLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given an aborted transaction of which only the end is looked at
    monkeypatch.setattr("storage.recovery.recover_tail.TAIL_OFFSETS", 1)
    aborted = AbortedTransaction(producer_id=PRODUCER_ID, first_offset=0, last_offset=2)
    await put_segment(log, 0, 0, [batch(0, b"a", transactional=True)], [aborted])
    following = [batch(1, b"b", transactional=True, sequence=1), at(2, marker(committed=False))]
    await put_segment(log, 1, 2, following, [aborted])

    # When the index is recovered, then none of its records is committed
    await recover(log)
    assert await aborted_of(log) == [(0, 2)]


@pytest.mark.parametrize("has_older", [False, True])
@pytest.mark.parametrize("is_lost", [False, True])
async def test_a_transaction_that_began_before_the_end_is_aborted_from_its_first_record(
    log: StoredLog, monkeypatch: pytest.MonkeyPatch, is_lost: bool, has_older: bool
) -> None:
    # Given a transaction that goes on through segments of which only the last one is looked at; it
    # is open, or aborted in a gap; behind another one of its producer, or not
    monkeypatch.setattr("storage.recovery.recover_tail.TAIL_OFFSETS", 1)
    older = [batch(0, b"older", transactional=True), at(1, marker(committed=True))]
    await put_segment(log, 0, 1, older if has_older else [batch(0, b"older", b"older")])
    for offset in range(2, 9):
        sequence = offset - 1 if has_older else offset - 2
        one = batch(offset, b"x", transactional=True, sequence=sequence)
        await put_segment(log, offset, offset, [one])
    if is_lost:
        await tell(log, (9, False))
        await put_segment(log, 10, 10, [batch(10, b"y")])

    # When the index is recovered, then none of its records is committed
    report = await recover(log)
    assert await aborted_of(log) == [(2, 9)]
    assert report.topics[0].unfinished == (0 if is_lost else 1)
