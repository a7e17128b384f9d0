"""Three brokers on one real Postgres and one real S3 server, as deploy/compose.yaml runs them."""

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.clients.confluent import Confluent
from tests.support.broker import BrokerProcess, start_broker
from tests.support.ports import free_port
from tests.support.postgres import create_empty_database
from tests.support.s3_server import S3Server
from tests.support.wire import WireClient, leader_of

BUCKET: Final = "streamhouse"
RACKS: Final = ("a", "b", "c")
AGREED_S: Final = 120.0
GLANCE_S: Final = 0.05


@dataclass(slots=True, kw_only=True)
class Trio:
    """The brokers, which a test may replace, and what one more would be started with."""

    home: Path
    brokers: list[BrokerProcess]
    arguments: Sequence[str]
    environment: Mapping[str, str]

    @property
    def dsn(self) -> str:
        """Their database."""
        return self.arguments[self.arguments.index("--postgres") + 1]

    @property
    def bootstraps(self) -> list[str]:
        return [broker.bootstrap for broker in self.brokers]

    @property
    def bootstrap(self) -> str:
        return ",".join(self.bootstraps)

    def start(self, name: str, *arguments: str, listen: str = "") -> BrokerProcess:
        """Start one more, on a port that it can have again; it is not among `brokers`.

        One hashes words by a number of its own: each does that is no fork of the same process.
        """
        return start_broker(
            self.home / name,
            *self.arguments,
            *arguments,
            listen=listen or f"127.0.0.1:{free_port()}",
            environment=self.environment,
            own_imports=name == "b1",
        )

    def restart(self, at: int) -> None:
        """Start a broker again that has ended, on the port that it had."""
        listen = self.brokers[at].bootstrap
        self.brokers[at] = self.start(f"b{at + 1}", listen=listen)

    @property
    def rack_clients(self) -> list[Confluent]:
        """Return a stock client of each broker, where each broker stands in a rack of its own."""
        return [
            Confluent(bootstrap=bootstrap, client_id=f"test,rack={rack}")
            for bootstrap, rack in zip(self.bootstraps, RACKS, strict=True)
        ]


@contextmanager
def three_brokers(home: Path, *settings: str, racks: bool = False) -> Iterator[Trio]:
    """Start all three at the same moment, on a database that has not even a schema yet."""
    with S3Server.start(home / "s3") as s3, ThreadPoolExecutor() as pool:
        s3.create_bucket(BUCKET)
        dsn = pool.submit(asyncio.run, create_empty_database()).result()
        trio = Trio(
            home=home,
            brokers=[],
            arguments=("--postgres", dsn, "--store", s3.store_url(BUCKET, "log"), *settings),
            environment={**os.environ, **s3.environment()},
        )
        starting = [
            pool.submit(trio.start, f"b{at}", *(("--set", f"broker.rack={rack}") if racks else ()))
            for at, rack in enumerate(RACKS, start=1)
        ]
        try:
            trio.brokers = [one.result() for one in starting]
            yield trio
        finally:
            started = trio.brokers or [one.result() for one in starting if not one.exception()]
            codes = [broker.stop() for broker in started]
        assert not any(codes), codes


async def leader_first(trio: Trio, topic: str) -> list[BrokerProcess]:
    """Make a topic of one partition; return the brokers, first who leads it, as all of them say."""
    async with await WireClient.connect(trio.bootstraps[0]) as wire:
        await wire.create_topic(topic)
    async with asyncio.timeout(AGREED_S):
        named: set[str | None] = {None}
        while None in named or len(named) > 1:
            await asyncio.sleep(GLANCE_S)
            named = {await _leader_by(one, topic) for one in trio.bootstraps}
    return sorted(trio.brokers, key=lambda broker: broker.bootstrap not in named)


async def _leader_by(bootstrap: str, topic: str) -> str | None:
    """Return who leads the partition, by one broker; None until it knows the topic and the trio."""
    async with await WireClient.connect(bootstrap) as wire:
        described = await wire.describe(topic)
    return leader_of(described) if len(described.brokers) >= len(RACKS) else None
