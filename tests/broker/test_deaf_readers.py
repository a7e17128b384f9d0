"""Who asks for much and does not read it costs little memory, the broker's and the kernel's."""

import asyncio
import os
import re
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import psutil
import pytest
from kio.schema.errors import ErrorCode

from broker.network.outbox import BACKLOG_BYTES, PIECE_BYTES, PINNED_BYTES
from broker.network.socket_options import UNSENT_BYTES
from protocol.records import Record, build_batch
from tests.support.broker import BrokerProcess, start_broker
from tests.support.wire import (
    WireClient,
    encode_frame,
    fetch_request,
    produce_request,
    request_entities,
)

DEAF: Final = 100
REQUESTS: Final = 300
"""With 60 kB to answer: more than the buffers of a socket take."""

MOST_BYTES_OF_EACH: Final = 64 * 1024
BACKGROUND_BYTES: Final = 4 * 2**20

LARGE_BYTES: Final = 1_000_000
RECORDS: Final = 4
MANY: Final = 24
REPEATS: Final = 4
WINDOW_BYTES: Final = 256 * 1024
"""What a peer whose program reads nothing lets be sent, with the kernel's own accounting."""

BLOCK_BYTES: Final = 8 * 2**20
BATCH_BYTES: Final = 100_000
BATCHES: Final = 40
ROWS: Final = 60
READING_BYTES: Final = 24 * 2**20
"""What reads at the same time take for a moment, as many as there happen to be, and the allocator
keeps. With all that was read beside it what waits would be 240 MB."""

SETTLED_S: Final = 0.5
PATIENCE_S: Final = 60.0


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    broker = start_broker(tmp_path)
    yield broker
    broker.stop()


async def test_answers_that_nobody_reads_do_not_pile_up(broker: BrokerProcess) -> None:
    # Given topics that take much to describe, and a broker that has done so
    every_topic = request_entities(3, 9).MetadataRequest(
        topics=None,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    process = psutil.Process(broker.pid)
    async with await WireClient.connect(broker.bootstrap) as wire:
        await wire.create_topic("many", partitions=1_000)
        await wire.ask(every_topic)
        before = process.memory_info().rss

        # When many ask for that again and again, and read nothing
        with ExitStack() as stack:
            frame = encode_frame(every_topic, 1) * REQUESTS
            for _ in range(DEAF):
                stack.enter_context(deaf(broker.bootstrap)).sendall(frame)

            # Then others are served, and what waits for the deaf is little
            for _ in range(20):
                described = await wire.ask(every_topic)
                assert described.topics[0].error_code is ErrorCode.none
            grown = process.memory_info().rss - before
    assert grown < DEAF * MOST_BYTES_OF_EACH + BACKGROUND_BYTES


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such option")
async def test_the_kernel_takes_little_of_what_nobody_reads(broker: BrokerProcess) -> None:
    # Given records of megabytes
    async with await WireClient.connect(broker.bootstrap) as wire:
        await wire.create_topic("large")
        record = Record(offset_delta=0, key=b"k", value=os.urandom(LARGE_BYTES))
        for _ in range(RECORDS):
            await wire.produce("large", build_batch([record], base_timestamp_ms=0))

    # When one asks for all of them, and reads nothing
    wanted = fetch_request([("large", 0, 0)], max_bytes=2**26, partition_max_bytes=2**26)
    host, _, port = broker.bootstrap.rpartition(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(encode_frame(wanted, 1) * REPEATS)

        # Then most of it waits with the broker, once, and not with the kernel for each
        async with asyncio.timeout(PATIENCE_S):
            held = await settled_bytes(connection)
        assert held < UNSENT_BYTES + WINDOW_BYTES

        # And it is all there for who reads after all
        connection.settimeout(PATIENCE_S)
        left = RECORDS * REPEATS * LARGE_BYTES
        while left > 0:
            taken = len(connection.recv(2**16))
            assert taken, left
            left -= taken


async def test_the_more_waits_for_the_deaf_the_less_is_read_for_others(
    broker: BrokerProcess,
) -> None:
    # Given records that are in memory, and readers who ask for all of them at once
    wanted = fetch_request([("large", 0, 0)], max_bytes=2**26, partition_max_bytes=2**26)
    everything = MANY * LARGE_BYTES
    async with await WireClient.connect(broker.bootstrap) as wire:
        await wire.create_topic("large")
        record = Record(offset_delta=0, key=b"k", value=os.urandom(LARGE_BYTES))
        for _ in range(MANY):
            await wire.produce("large", build_batch([record], base_timestamp_ms=0))

        async def read_bytes() -> int:
            return len((await wire.ask(wanted)).responses[0].partitions[0].records)

        assert await read_bytes() > everything

        # When more and more of them read nothing, then others are given one batch at a time in the
        # end, as no more waits for all than a broker holds
        most = 2 * BACKLOG_BYTES // LARGE_BYTES  # who asks while somebody reads is given one batch
        with ExitStack() as stack:
            while await read_bytes() > 2 * LARGE_BYTES:
                assert most > 0
                most -= 1
                stack.enter_context(deaf(broker.bootstrap)).sendall(encode_frame(wanted, 1))

        # And all again once those are gone
        async with asyncio.timeout(PATIENCE_S):
            while await read_bytes() < everything:
                await asyncio.sleep(0.01)


async def test_what_waits_for_the_deaf_does_not_keep_all_that_was_read_with_it(
    tmp_path: Path,
) -> None:
    # Given rows of megabytes that are in no memory any more
    environment = dict(
        os.environ,
        STREAMHOUSE_CACHE__TAIL_BYTES=str(LARGE_BYTES),
        STREAMHOUSE_CACHE__BLOCK_BYTES=str(BLOCK_BYTES),
    )
    broker = start_broker(tmp_path, environment=environment)
    try:
        process = psutil.Process(broker.pid)
        batch = build_batch([Record(offset_delta=0, value=os.urandom(BATCH_BYTES))])
        async with await WireClient.connect(broker.bootstrap) as wire:
            await wire.create_topic("rows", partitions=ROWS)
            for number in range(ROWS):
                produce = encode_frame(produce_request("rows", batch, partition=number), 1)
                sending = asyncio.create_task(wire.send(produce * BATCHES))
                for _ in range(BATCHES):
                    await wire.receive_frame()
                await sending
            await wire.fetch("rows", BATCHES - 1)
            before = process.memory_info().rss

            # When many ask for a little of a row each, and read nothing
            with ExitStack() as stack:
                connections = [stack.enter_context(deaf(broker.bootstrap)) for _ in range(ROWS)]
                for number, connection in enumerate(connections):
                    wanted = fetch_request(
                        [("rows", number, BATCHES // 2)],
                        partition_max_bytes=4 * BATCH_BYTES + 1_000,
                    )
                    connection.sendall(encode_frame(wanted, 1))
                async with asyncio.timeout(PATIENCE_S):
                    while not all(map(kernel_bytes, connections)):
                        await asyncio.sleep(0.1)
                grown = process.memory_info().rss - before
    finally:
        broker.stop()

    # Then they cost about what they asked for
    wanted_bytes = BLOCK_BYTES + PINNED_BYTES + ROWS * PIECE_BYTES
    assert grown < wanted_bytes + READING_BYTES + BACKGROUND_BYTES


async def settled_bytes(connection: socket.socket) -> int:
    """Return what the kernel holds once there is something, and no more comes."""
    before, held = 0, kernel_bytes(connection)
    while held == 0 or held != before:
        await asyncio.sleep(SETTLED_S)
        before, held = held, kernel_bytes(connection)
    return held


def kernel_bytes(connection: socket.socket) -> int:
    """Return what the kernel holds of what the other end of a connection has sent."""
    near, far = (f":{name[1]:04X}" for name in (connection.getsockname(), connection.getpeername()))
    rows = re.findall(
        r"^ *\d+: \w+(:\w+) \w+(:\w+) \w+ (\w+):(\w+)",
        Path("/proc/net/tcp").read_text(),
        re.MULTILINE,
    )
    sent = sum(int(row[2], 16) for row in rows if row[:2] == (far, near))
    received = sum(int(row[3], 16) for row in rows if row[:2] == (near, far))
    return sent + received


def deaf(bootstrap: str) -> socket.socket:
    """Return a connection that takes as little as its kernel allows."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    host, _, port = bootstrap.rpartition(":")
    connection.connect((host, int(port)))
    return connection
