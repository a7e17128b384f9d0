"""What was changed when it was built: other bytes hold the same records, or some are gone."""

import itertools
from collections.abc import AsyncIterator

import pytest

from protocol.batch import HEADER_BYTES, read_header
from protocol.compression import Codec
from protocol.decompression import decompress
from protocol.records import Record, build_batch, decode_records
from storage.recovery.recover_report import NOT_RECOVERED
from storage.upkeep.segment_rows import read_rows
from tests.storage.stored_log import StoredLog, stored_log
from tests.storage.test_recover_store import recover

_times = itertools.count(1000)


@pytest.fixture
async def log() -> AsyncIterator[StoredLog]:
    """An empty log."""
    async with stored_log() as opened:
        yield opened


def keyed(*records: tuple[bytes, bytes]) -> bytes:
    """Return a batch of keys and values, of a producer without an id."""
    return build_batch(
        [
            Record(offset_delta=delta, key=key, value=value)
            for delta, (key, value) in enumerate(records)
        ],
        base_timestamp_ms=next(_times),
    )


async def records_of(log: StoredLog) -> dict[int, tuple[bytes | None, bytes | None]]:
    """Return keys and values by their offsets."""
    found = {}
    async for part in read_rows(log.objects, await log.rows()):
        for batch in part.batches:
            header = read_header(batch)
            payload = decompress(header.codec, batch[HEADER_BYTES:])
            for record in decode_records(payload, header.record_count, from_producer=False):
                found[header.base_offset + record.offset_delta] = record.key, record.value
    return found


async def test_what_compaction_removed_does_not_come_back(log: StoredLog) -> None:
    # Given three leaders, each of which wrote its first record before it knew the log's end
    for value in (b"v1", b"v2", b"v3"):
        log.change_leader()
        await log.store([keyed((b"k", value))])
    await log.build()
    await log.compact()
    before = await records_of(log)
    assert before == {2: (b"k", b"v3")}

    # When the index is recovered, then the newest value is still the newest
    await recover(log)
    assert await records_of(log) == before


async def test_what_compaction_left_of_a_batch_is_recognised(log: StoredLog) -> None:
    # Given a leader's first batch, of which compaction has left one record of two
    log.change_leader()
    await log.store([keyed((b"k", b"v1"), (b"k", b"v2"))])
    await log.build(codec=Codec.ZSTD)
    await log.compact()
    before = await records_of(log)
    assert before == {1: (b"k", b"v2")}

    # When the index is recovered, then the other does not come back
    await recover(log)
    assert await records_of(log) == before


async def test_what_a_producer_sent_twice_tells_nothing_of_what_is_before_it(
    log: StoredLog,
) -> None:
    # Given a batch that is built, and which a client sent again to the next leader; that took
    # another one before it
    first = keyed((b"a", b"1"))
    log.change_leader()
    await log.store([first])
    await log.build()
    log.change_leader()
    await log.store([keyed((b"b", b"2")), first])

    # When the index is recovered, then the one in between is there
    await recover(log)
    assert (await records_of(log))[1] == (b"b", b"2")


async def test_what_is_compressed_otherwise_is_there_once(log: StoredLog) -> None:
    # Given a leader's first batches, built with another codec, and others behind them
    await log.write(b"a", b"b")
    log.change_leader()
    await log.write(b"c", b"d")
    await log.build(codec=Codec.ZSTD)
    await log.write(b"e")
    log.change_leader()
    await log.write(b"f")
    before = await records_of(log)
    assert [value for _, value in before.values()] == [b"a", b"b", b"c", b"d", b"e", b"f"]

    # When the index is recovered, then all are where they were
    await recover(log)
    assert await records_of(log) == before


@pytest.mark.parametrize("codec", [None, Codec.ZSTD])
async def test_what_is_built_far_from_the_end_is_found_by_its_time(
    log: StoredLog, monkeypatch: pytest.MonkeyPatch, codec: Codec | None
) -> None:
    # Given a leader's first object, kept for other partitions, when all behind it is built and gone
    monkeypatch.setattr("storage.recovery.recover_tail.TAIL_OFFSETS", 1)
    await log.write(b"a", b"b")
    log.change_leader()
    kept = await log.write(b"c", b"d")
    for _ in range(3):
        await log.write(b"e", b"f")
        await log.write(b"g", b"h")
    await log.build(codec=codec)
    before = await records_of(log)
    for path in [path for path in log.objects._objects if path.startswith("wal/")]:
        if path != kept:
            log.spoil(path, None)

    # When the index is recovered, then it is there once
    await recover(log)
    assert await records_of(log) == before


async def test_deleted_records_come_back_with_their_segment(log: StoredLog) -> None:
    # Given a log that begins in the middle of a segment
    await log.write(b"a", b"b", b"c")
    await log.build()
    await log.metadata.delete_records({log.partition(): 2})

    # When the index is recovered, then it begins with the segment, and that is told
    await recover(log)
    offsets = (await log.metadata.partition_offsets([log.partition()]))[log.partition()]
    assert offsets.log_start_offset == 0
    assert any("DeleteRecords" in line for line in NOT_RECOVERED)


async def test_batches_of_one_moment_are_not_taken_for_each_other(log: StoredLog) -> None:
    # Given two batches of the same time and size, the first of which is built
    built, unbuilt = (
        build_batch([Record(offset_delta=0, value=value)], base_timestamp_ms=7)
        for value in (b"a", b"b")
    )
    await log.store([built])
    await log.build(codec=Codec.ZSTD)
    log.change_leader()
    await log.store([unbuilt])

    # When the index is recovered, then both are there
    await recover(log)
    assert [value for _, value in (await records_of(log)).values()] == [b"a", b"b"]
