"""Transactions that began before the end of the built segments, which recovery looks at."""

from collections.abc import AsyncIterator
from typing import Final

import pytest

from protocol.batch import TRANSACTIONAL_BIT
from protocol.control_batch import EndMarker, build_end_marker
from protocol.records import Record, build_batch
from storage.metadata.transactions import Producer, TransactionEnd, Verdict
from storage.segment import parse_index
from storage.segment_index import BLOCK_BYTES
from storage.wal_index import WalEnding
from tests.storage.stored_log import StoredLog, stored_log
from tests.storage.test_recover_store import recover, sweep

PRODUCER: Final = 41


@pytest.fixture
async def log(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[StoredLog]:
    """A log of which only the end is looked at."""
    monkeypatch.setattr("storage.recovery.recover_tail.TAIL_OFFSETS", 1)
    async with stored_log() as opened:
        yield opened


def in_transaction(sequence: int = 0) -> bytes:
    """Return a batch of the producer."""
    return build_batch(
        [Record(offset_delta=0, value=b"in it")],
        attributes=TRANSACTIONAL_BIT,
        base_timestamp_ms=1000,
        producer_id=PRODUCER,
        producer_epoch=0,
        base_sequence=sequence,
    )


async def write(log: StoredLog, *, sequence: int = 0, others: int = 4) -> None:
    """Write a record in a transaction, and behind it some of none."""
    await log.store([in_transaction(sequence)])
    for number in range(others):
        await log.write(b"%d" % number)


async def end(log: StoredLog, *, committed: bool) -> None:
    """End a transaction of the producer that began with the first record."""
    begun = await log.metadata.init_producer(
        "t", timeout_ms=60_000, expected=None, fresh_producer_id=PRODUCER
    )
    assert begun.producer == Producer(transactional_id="t", producer_id=PRODUCER, producer_epoch=0)
    await log.metadata.add_to_transaction(begun.producer, [log.partition()])
    await log.sql("UPDATE streamhouse_internal.transaction_partitions SET first_offset = 0")
    said = EndMarker(producer_id=PRODUCER, producer_epoch=0, committed=committed, timestamp_ms=1000)
    ended = await log.metadata.end_transaction(
        TransactionEnd(
            producer=begun.producer,
            committed=committed,
            bumps_epoch=False,
            marker=build_end_marker(said, leader_epoch=0),
            marker_timestamp_ms=1000,
        )
    )
    assert ended.verdict is Verdict.DONE


async def aborted(log: StoredLog) -> list[tuple[int, int]]:
    """Return where what the producer has aborted begins and ends."""
    partition = log.partition()
    offsets = (await log.metadata.partition_offsets([partition]))[partition]
    page = await log.metadata.aborted_transactions(
        partition, 0, offsets.high_watermark, 10, aborted_count=offsets.aborted_count
    )
    return [(one.first_offset, one.last_offset) for one in page.transactions]


async def test_what_nobody_tells_the_end_of_is_aborted_from_its_begin_on(log: StoredLog) -> None:
    await write(log)
    await log.build()
    await sweep(log)
    report = await recover(log)
    assert report.topics[0].unfinished == 1
    assert await aborted(log) == [(0, 5)]


async def test_so_is_what_has_records_at_the_end_as_well(log: StoredLog) -> None:
    await write(log)
    await write(log, sequence=1, others=0)
    await log.build()
    await write(log, sequence=2, others=0)
    await recover(log)
    assert await aborted(log) == [(0, 7)]


async def test_so_is_what_began_in_a_segment_of_many_blocks(
    log: StoredLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage.recovery.recover_open.BLOCKS_OF_A_GET", 2)
    large = build_batch([Record(offset_delta=0, value=bytes(BLOCK_BYTES))], base_timestamp_ms=1000)
    await log.store([in_transaction(), *[large] * 4])
    built = await log.build()
    index = log.content(built.path)[-built.index_length :]
    assert len(parse_index(index).blocks) == 5
    await recover(log)
    assert await aborted(log) == [(0, 5)]


@pytest.mark.parametrize(("committed", "skipped"), [(True, []), (False, [(0, 5)])])
async def test_it_ends_as_an_object_tells(
    log: StoredLog,
    committed: bool,
    skipped: list[tuple[int, int]],
) -> None:
    await write(log)
    await log.build()
    await log.tell(WalEnding(0, 0, 5, PRODUCER, 0, committed=committed, timestamp_ms=1000))
    report = await recover(log)
    assert report.topics[0].unfinished == 0
    assert await aborted(log) == skipped


@pytest.mark.parametrize(("committed", "skipped"), [(True, []), (False, [(0, 5)])])
async def test_what_has_ended_is_not_open(
    log: StoredLog,
    committed: bool,
    skipped: list[tuple[int, int]],
) -> None:
    await write(log)
    await end(log, committed=committed)
    for value in (b"x", b"y", b"z"):
        await log.write(value)
    await log.build()
    report = await recover(log)
    assert report.topics[0].unfinished == 0
    assert await aborted(log) == skipped


async def test_a_segment_knows_where_one_began_that_ended_in_it(
    log: StoredLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given one that began further back than is looked at
    monkeypatch.setattr("storage.recovery.recover_open.MOST_BLOCKS", 0)
    await write(log, others=3)
    await write(log, sequence=1, others=0)
    await end(log, committed=False)
    await log.build()

    # When the index is recovered, then nothing of it is read
    await recover(log)
    assert await aborted(log) == [(0, 5)]


async def test_what_may_have_ended_where_nothing_can_be_read_is_not_aborted(log: StoredLog) -> None:
    # Given one whose end was built into a segment that is lost
    await write(log)
    await end(log, committed=True)
    for value in (b"x", b"y", b"z"):
        await log.write(value)
    await log.build()
    lost = next(row for row in await log.rows() if row.start_offset <= 5 <= row.end_offset)
    assert lost.start_offset > 0
    log.spoil(lost.path, None)
    await sweep(log)

    # When the index is recovered, then what it wrote is read
    report = await recover(log)
    assert report.topics[0].lost == [(0, lost.start_offset, lost.end_offset)]
    assert report.topics[0].unfinished == 0
    assert await aborted(log) == []


async def test_what_lies_before_much_without_transactions_is_not_looked_at(
    log: StoredLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a transaction, and much behind it that is of none
    monkeypatch.setattr("storage.recovery.recover_open.BLOCKS_OF_A_GET", 1)
    monkeypatch.setattr("storage.recovery.recover_open.MOST_QUIET_BYTES", 2 * BLOCK_BYTES)
    large = build_batch([Record(offset_delta=0, value=bytes(BLOCK_BYTES))], base_timestamp_ms=1000)
    await log.store([in_transaction(), *[large] * 4])
    await log.build()

    # When the index is recovered, then what it wrote is read, as docs/operations.md says
    report = await recover(log)
    assert report.topics[0].unfinished == 0
    assert await aborted(log) == []
