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
from tests.support.postgres import create_empty_database
from tests.support.s3_server import S3Server

BUCKET: Final = "streamhouse"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trio:
    """The brokers, and what one more would be started with."""

    brokers: Sequence[BrokerProcess]
    arguments: Sequence[str]
    environment: Mapping[str, str]

    @property
    def bootstraps(self) -> list[str]:
        return [broker.bootstrap for broker in self.brokers]

    @property
    def clients(self) -> list[Confluent]:
        """Return a stock client of each broker."""
        return [Confluent(bootstrap=bootstrap) for bootstrap in self.bootstraps]


@contextmanager
def three_brokers(home: Path, *settings: str) -> Iterator[Trio]:
    """Start all three at the same moment, on a database that has not even a schema yet."""
    with S3Server.start(home / "s3") as s3, ThreadPoolExecutor() as pool:
        s3.create_bucket(BUCKET)
        dsn = pool.submit(asyncio.run, create_empty_database()).result()
        arguments = ("--postgres", dsn, "--store", s3.store_url(BUCKET, "log"), *settings)
        environment = {**os.environ, **s3.environment()}

        def start(name: str) -> BrokerProcess:
            return start_broker(home / name, *arguments, environment=environment)

        starting = [pool.submit(start, name) for name in ("b1", "b2", "b3")]
        try:
            brokers = [one.result() for one in starting]
            yield Trio(brokers=brokers, arguments=arguments, environment=environment)
        finally:
            codes = [one.result().stop() for one in starting if one.exception() is None]
        assert codes == [0, 0, 0]
