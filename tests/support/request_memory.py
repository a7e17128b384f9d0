"""How much memory of requests a broker holds, as its metrics tell."""

import asyncio
import re
from typing import Final
from urllib.request import urlopen

from tests.support.broker import BrokerProcess

GLANCE_S: Final = 0.01
HTTP_S: Final = 30


def held_bytes(broker: BrokerProcess) -> float:
    with urlopen(f"http://{broker.http}/metrics", timeout=HTTP_S) as response:
        found = re.search(
            rb"^streamhouse_request_memory_bytes (.*)$", response.read(), re.MULTILINE
        )
    assert found is not None
    return float(found[1])


async def until_held(broker: BrokerProcess, expected: float, timeout_s: float = 60) -> None:
    """Wait until exactly so much is held."""
    async with asyncio.timeout(timeout_s):
        while held_bytes(broker) != expected:
            await asyncio.sleep(GLANCE_S)
