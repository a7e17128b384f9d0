"""Two brokers of one cluster, for tests of what each tells of what the other did."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.broker.admin.wire import Wire
from tests.support.broker import BrokerProcess, start_broker
from tests.support.wire import WireClient

PATIENCE_S: Final = 20


@dataclass(slots=True, kw_only=True)
class Pair:
    """Two brokers, in racks of their own, so that both of them serve all partitions."""

    brokers: list[BrokerProcess]
    dsn: str
    home: Path

    @property
    def wires(self) -> list[Wire]:
        return [Wire("127.0.0.1", broker.port) for broker in self.brokers]

    async def start(self, rack: str) -> None:
        """Start another one, at an address of its own, and wait until all know each other."""
        shared = ("--postgres", self.dsn, "--store", f"file://{self.home / 'objects'}")
        self.brokers.append(start_broker(self.home / rack, *shared, "--set", f"broker.rack={rack}"))
        await _know_each_other(self.brokers)


async def start_pair(home: Path, dsn: str) -> Pair:
    """Start them, and wait until they know each other."""
    pair = Pair(brokers=[], dsn=dsn, home=home)
    for rack in ("a", "b"):
        await pair.start(rack)
    return pair


async def _know_each_other(brokers: list[BrokerProcess]) -> None:
    """Wait until each of them has heard of all."""
    for broker in brokers:
        async with asyncio.timeout(PATIENCE_S), await WireClient.connect(broker.bootstrap) as wire:
            while len((await wire.describe("none")).brokers) < len(brokers):
                await asyncio.sleep(0.05)
