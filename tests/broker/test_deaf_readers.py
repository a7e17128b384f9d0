"""Who asks for much and does not read it costs the broker little memory, whatever it asks for."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import psutil
import pytest
from kio.schema.errors import ErrorCode

from tests.support.broker import BrokerProcess, start_broker
from tests.support.wire import WireClient, encode_frame, request_entities

DEAF: Final = 100
REQUESTS: Final = 300
"""With 60 kB to answer: more than the buffers of a socket take."""

MOST_BYTES_OF_EACH: Final = 64 * 1024
BACKGROUND_BYTES: Final = 4 * 2**20


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


def deaf(bootstrap: str) -> socket.socket:
    """Return a connection that takes as little as its kernel allows."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    host, _, port = bootstrap.rpartition(":")
    connection.connect((host, int(port)))
    return connection
