"""An object store that hangs while clients send on: memory has a limit, and it holds."""

import asyncio
import time
from pathlib import Path
from typing import Final

import psutil
import pytest
from kio.schema.errors import ErrorCode

from storage.config import MiB, WriterConfig
from tests.crash.flood import Flood, run_flood
from tests.crash.processes import GLANCE_S, killable_broker
from tests.support.s3_server import S3Server
from tests.support.wire import WireClient

BUDGET_BYTES: Final = 64 * MiB
CACHE_BYTES: Final = 16 * MiB
UPLOAD_BYTES: Final = WriterConfig().max_uploads * WriterConfig().flush_bytes  # a copy of each body
SLACK_BYTES: Final = 48 * MiB  # the allocator's, and the HTTP client's
LIMIT_BYTES: Final = BUDGET_BYTES + 2 * CACHE_BYTES + UPLOAD_BYTES + SLACK_BYTES
AWAY_S: Final = 8.0  # an upload is tried a second time after six
CAUGHT_UP_S: Final = 120.0
SAMPLE_S: Final = 0.1
SETTLED_S: Final = 2.0
LATEST: Final = -1


async def peak_rss(pid: int, seconds: float) -> int:
    """Return the most memory that a process holds during the next `seconds`."""
    process, most = psutil.Process(pid), 0
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        most = max(most, process.memory_info().rss)
        await asyncio.sleep(SAMPLE_S)
    return most


async def settled_rss(pid: int) -> int:
    """Return what memory a process holds once it takes no more: it loads itself for a while."""
    process = psutil.Process(pid)
    most, grown_s = 0, time.monotonic()
    while time.monotonic() - grown_s < SETTLED_S:
        now = process.memory_info().rss
        if now > most:
            most, grown_s = now, time.monotonic()
        await asyncio.sleep(SAMPLE_S)
    return most


@pytest.mark.parametrize("timeout_ms", [180_000, 1_000], ids=["patient", "hasty"])
async def test_memory_is_bounded_while_the_object_store_hangs(data: Path, timeout_ms: int) -> None:
    # Given a broker with a budget that is a quarter of what its clients are going to send
    flood = Flood(topic="flood", timeout_ms=timeout_ms)
    assert flood.bytes >= 4 * BUDGET_BYTES
    with S3Server.start(data / "s3") as server:
        server.create_bucket("crash")
        settings = {
            "STREAMHOUSE_CACHE__TAIL_BYTES": str(CACHE_BYTES),
            "STREAMHOUSE_CACHE__BLOCK_BYTES": str(CACHE_BYTES),
        }
        with killable_broker(
            data,
            *("--store", server.store_url("crash")),
            *("--set", f"queued.max.request.bytes={BUDGET_BYTES}"),
            environment={**server.environment(), **settings},
        ) as broker:
            async with await WireClient.connect(broker.bootstrap) as client:
                await client.create_topic(flood.topic)
                idle_bytes = await settled_rss(broker.process.pid)
                # When they send all of it while the store answers nothing
                server.pause()
                sending = asyncio.create_task(run_flood(broker.bootstrap, flood))
                away_bytes = await peak_rss(broker.process.pid, AWAY_S)
                server.resume()
                codes = await sending
                # Then memory grew by no more than its limits, also while it caught up
                end_bytes = psutil.Process(broker.process.pid).memory_info().rss
                assert max(away_bytes, end_bytes) - idle_bytes <= LIMIT_BYTES
                # And all that was taken is in the log
                assert set(codes) <= {ErrorCode.none, ErrorCode.request_timed_out}
                if timeout_ms > AWAY_S * 1000:
                    assert set(codes) == {ErrorCode.none}
                async with asyncio.timeout(CAUGHT_UP_S):
                    while (await client.list_offset(flood.topic, LATEST)).offset < flood.records:
                        await asyncio.sleep(GLANCE_S)
