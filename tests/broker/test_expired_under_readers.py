"""Retention is not the broker's: another process moves log starts under those who read."""

from pathlib import Path

import asyncpg
import pytest
from kio.schema.errors import ErrorCode

from protocol.records import Record, build_batch
from storage.postgres_binaries import unix_socket_dsn
from storage.postgres_pool import Connection
from tests.support.broker import start_broker
from tests.support.wire import WireClient

TOPIC = "expired"
MOVE = "UPDATE streamhouse_internal.partitions SET log_start_offset = $1"


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
