"""Another process moves log starts under those who read; what the index has lost is an error."""

from pathlib import Path

import asyncpg
import pytest
from kio.schema.errors import ErrorCode

from protocol.records import Record, build_batch
from storage.postgres.postgres_binaries import unix_socket_dsn
from storage.postgres.postgres_connection import Connection
from tests.support.broker import start_broker
from tests.support.wire import WireClient

TOPIC = "expired"
MOVE = "UPDATE streamhouse_internal.partitions SET log_start_offset = $1"
LOSE = "DELETE FROM streamhouse_internal.segments WHERE start_offset = $1"


@pytest.mark.parametrize("log_start", [4, 8])
async def test_a_reader_behind_the_log_start_is_told_so(tmp_path: Path, log_start: int) -> None:
    # Given a log of four batches that its broker has not in memory, and a reader of it
    written = start_broker(tmp_path)
    async with await WireClient.connect(written.bootstrap) as wire:
        await wire.create_topic(TOPIC)
        for _ in range(4):
            await wire.produce(TOPIC, build_batch([Record(offset_delta=at) for at in range(2)]))
    written.stop()
    broker = start_broker(tmp_path)
    try:
        async with await WireClient.connect(broker.bootstrap) as wire:
            assert (await wire.fetch(TOPIC, 7)).records

            # When the log is made to begin later, or where it ends
            database: Connection = await asyncpg.connect(unix_socket_dsn(tmp_path / "postgres"))
            await database.execute(MOVE, log_start)
            await database.close()

            # Then who comes before that is neither given what follows, nor left to wait for ever
            refused = await wire.fetch(TOPIC, 1)
            assert refused.error_code == ErrorCode.offset_out_of_range
            assert not refused.records
            following = await wire.fetch(TOPIC, log_start)
            assert following.error_code == ErrorCode.none
            assert following.log_start_offset == log_start
    finally:
        broker.stop()


@pytest.mark.parametrize("lost", [2, 6])
async def test_a_reader_of_offsets_that_the_index_has_lost_is_told_so(
    tmp_path: Path, lost: int
) -> None:
    # Given a log of four batches that its broker has not in memory, and an index without one's row
    written = start_broker(tmp_path)
    async with await WireClient.connect(written.bootstrap) as wire:
        await wire.create_topic(TOPIC)
        for _ in range(4):
            await wire.produce(TOPIC, build_batch([Record(offset_delta=at) for at in range(2)]))
    written.stop()
    broker = start_broker(tmp_path)
    try:
        database: Connection = await asyncpg.connect(unix_socket_dsn(tmp_path / "postgres"))
        assert await database.execute(LOSE, lost) == "DELETE 1"
        await database.close()
        async with await WireClient.connect(broker.bootstrap) as wire:
            # When its records are read, then it is an error: neither nothing for ever, nor the next
            for offset in (lost, lost + 1):
                refused = await wire.fetch(TOPIC, offset)
                assert refused.error_code == ErrorCode.kafka_storage_error
                assert not refused.records

            # And what is before and behind them can be read, and so can the end of the log
            for offset in {0, 4, 8} - {lost}:
                fine = await wire.fetch(TOPIC, offset)
                assert fine.error_code == ErrorCode.none
                assert bool(fine.records) is (offset < 8)
    finally:
        broker.stop()
