"""What tools are told of topics while nobody can say which there are."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from tests.broker.admin.questions import TOPIC, add_partitions, create, delete, describe
from tests.broker.admin.wire import Wire
from tests.support.broker import start_broker
from tests.support.lossy_proxy import LossyProxy
from tests.support.postgres import create_empty_database, postgres_server, short_directory

KNOWN = "known"


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
        yield wire


async def test_each_topic_is_told_that_there_was_no_answer(alone: Wire) -> None:
    # When topics are to be described and changed, then each is told that nobody knows
    described = await asyncio.to_thread(describe, alone, KNOWN, kind=TOPIC)
    created = await asyncio.to_thread(create, alone, "new", check=True)
    deleted = await asyncio.to_thread(delete, alone, KNOWN, "other")
    grown = await asyncio.to_thread(add_partitions, alone, KNOWN, 2, check=True)
    codes = [result.error_code for result in (described, created, *deleted, grown)]
    assert codes == [ErrorCode.request_timed_out] * 5
