"""What a Produce and a Fetch cost, in calls: bench/costs.toml has the limits."""

import asyncio
import json
import os
import signal
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from protocol.records import Record, build_batch
from tests.support.broker import BrokerProcess, start_broker
from tests.support.wire import WireClient, fetch_request, produce_request

REQUESTS: Final = 200
DEADLINE_S: Final = 20.0
WON: Final = 0.7
"""Below this share of a limit, the limit is to be lowered."""

PRODUCE: Final = "produce"
FETCH: Final = "fetch"
LIMITS: Final = tomllib.loads((Path(__file__).parents[2] / "bench" / "costs.toml").read_text())


@dataclass(frozen=True, slots=True)
class CountedBroker:
    """A broker, and the file that it writes counts to."""

    process: BrokerProcess
    file: Path

    def begin(self) -> None:
        self.file.unlink(missing_ok=True)
        os.kill(self.process.pid, signal.SIGUSR1)

    async def end(self) -> dict[str, Any]:
        os.kill(self.process.pid, signal.SIGUSR2)
        async with asyncio.timeout(DEADLINE_S):
            while not self.file.exists():
                await asyncio.sleep(0.01)
        counts: dict[str, Any] = json.loads(self.file.read_text())
        return counts


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CountedBroker]:
    home = tmp_path_factory.mktemp("counted")
    file = home / "counts.json"
    process = start_broker(home, program=("bench.counted_broker", str(file)))
    yield CountedBroker(process, file)
    process.stop()


@pytest.mark.parametrize("size", LIMITS["bytes"])
async def test_a_request_costs_no_more_than_it_may(broker: CountedBroker, size: int) -> None:
    # Given a topic with a batch
    topic, at = f"of-{size}", LIMITS["bytes"].index(size)
    batch = build_batch([Record(offset_delta=0, value=bytes(size))])
    async with await WireClient.connect(broker.process.bootstrap) as client:
        await client.create_topic(topic)
        produce = produce_request(topic, batch)
        fetch = fetch_request([(topic, 0, 0)], max_bytes=1)

        for name, request in ((PRODUCE, produce), (FETCH, fetch)):
            # When it is asked many times, after a first time that makes what is made once
            await client.ask(request)
            broker.begin()
            for _ in range(REQUESTS):
                await client.ask(request)
            counts = await broker.end()

            # Then each costs what it costs
            for kind, limit in LIMITS[name].items():
                cost = counts[kind] / REQUESTS
                assert WON * limit[at] <= cost <= limit[at], (
                    f"{name} of {size} bytes: {cost} {kind}"
                )
