"""What tools are told of topics while nobody can say which there are."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from broker.topic_lookups import LOOKUP_INTERVAL_S
from protocol.records import Record, build_batch
from tests.broker.admin.questions import (
    TOPIC,
    add_partitions,
    create,
    delete,
    describe,
    partitions_of,
)
from tests.broker.admin.wire import Wire
from tests.support.broker import start_broker
from tests.support.lossy_proxy import LossyProxy
from tests.support.postgres import create_empty_database, postgres_server, short_directory
from tests.support.wire import fetch_request, produce_request

NOW_MS = time.time_ns() // 10**6
KNOWN = "known"
UNKNOWN = [f"unknown-{at}" for at in range(100)]


@pytest.fixture
async def alone(tmp_path: Path) -> AsyncIterator[Wire]:
    """Return a broker that knows a topic, and has lost Postgres."""
    dsn, server = await create_empty_database(), postgres_server().directory
    async with AsyncExitStack() as stack:
        directory = stack.enter_context(short_directory())
        behind = dsn.replace(f"host={server}", f"host={directory}")
        async with LossyProxy.between(directory, server):
            broker = await asyncio.to_thread(start_broker, tmp_path, "--postgres", behind)
            stack.push_async_callback(asyncio.to_thread, broker.stop)
            wire = Wire("127.0.0.1", broker.port)
            created = await asyncio.to_thread(create, wire, KNOWN)
            assert created.error_code is ErrorCode.none
            batch = build_batch([Record(offset_delta=0, value=b"x")], base_timestamp_ms=NOW_MS)
            request = produce_request(KNOWN, batch)
            produced = await asyncio.to_thread(wire.ask, request)
            assert produced.responses[0].partition_responses[0].error_code is ErrorCode.none
        yield wire


async def test_each_topic_is_told_that_there_was_no_answer(alone: Wire) -> None:
    # When topics are to be described and changed, then each is told that nobody knows
    described = await asyncio.to_thread(describe, alone, KNOWN, kind=TOPIC)
    created = await asyncio.to_thread(create, alone, "new", check=True)
    deleted = await asyncio.to_thread(delete, alone, KNOWN, "other")
    grown = await asyncio.to_thread(add_partitions, alone, KNOWN, 2, check=True)
    codes = [result.error_code for result in (described, created, *deleted, grown)]
    assert codes == [ErrorCode.request_timed_out] * 5


async def test_for_many_unknown_topics_postgres_is_asked_once(alone: Wire) -> None:
    # When a client asks for many topics that this broker does not know
    began_s = time.monotonic()
    topics, _ = await asyncio.to_thread(partitions_of, alone, KNOWN, *UNKNOWN)

    # Then it is told soon that nobody can say which there are
    assert time.monotonic() - began_s < LOOKUP_INTERVAL_S * len(UNKNOWN) / 4
    codes = {topic.name: topic.error_code for topic in topics}
    assert codes.pop(KNOWN) is ErrorCode.none
    assert codes == dict.fromkeys(UNKNOWN, ErrorCode.request_timed_out)


async def test_a_topic_that_nobody_knows_keeps_no_other_from_being_read(alone: Wire) -> None:
    # When a consumer reads a topic that this broker has in memory, and some that it does not know
    wanted: list[tuple[str | UUID, int, int]] = [(name, 0, 0) for name in (KNOWN, *UNKNOWN)]
    response = await asyncio.to_thread(alone.ask, fetch_request(wanted))

    # Then it is given the records, and told of the others what all clients try again after
    assert response.error_code is ErrorCode.none
    partitions = {topic.topic: topic.partitions[0] for topic in response.responses}
    assert partitions[KNOWN].records
    codes = {name: partition.error_code for name, partition in partitions.items()}
    assert codes == {KNOWN: ErrorCode.none} | dict.fromkeys(UNKNOWN, ErrorCode.kafka_storage_error)
