"""What a job lives on: a Postgres and a broker that are killed, and started again at once."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import asyncpg

from tests.clients.confluent import Confluent
from tests.crash.external_postgres import ExternalPostgres, external_postgres
from tests.crash.processes import KillableBroker, killable_broker

SINK_BATCHES: Final = "SELECT coalesce(sum(last_batch_id + 1), 0) FROM streamhouse.sink_batches"


@dataclass(frozen=True, slots=True, kw_only=True)
class KillableCluster:
    """One broker on a directory as object store and a Postgres that is not its own."""

    broker: KillableBroker
    postgres: ExternalPostgres

    @property
    def bootstrap(self) -> str:
        return self.broker.bootstrap

    @property
    def store(self) -> str:
        return f"file://{self.broker.data / 'objects'}"

    @property
    def confluent(self) -> Confluent:
        return Confluent(bootstrap=self.bootstrap)

    @property
    def location(self) -> dict[str, str]:
        """Return options of a reader or writer that needs no broker."""
        return {"postgres": self.postgres.dsn, "store": self.store}

    @property
    def environment(self) -> dict[str, str]:
        """Return what a job is started with."""
        return {
            **os.environ,
            "STREAMHOUSE_POSTGRES": self.postgres.dsn,
            "STREAMHOUSE_STORE": self.store,
        }

    def sink_batches(self) -> int:
        """Return how many micro-batches the log has from sinks without brokers."""
        return asyncio.run(_fetch_count(self.postgres.dsn, SINK_BATCHES))

    def kill_postgres(self) -> None:
        """Kill all of Postgres; it comes back with crash recovery."""
        self.postgres.kill_all()
        self.postgres.start()

    def kill_broker(self) -> None:
        """Kill the broker; another one comes back at its address."""
        self.broker.process.kill()
        self.broker.start()


@contextmanager
def killable_cluster(home: Path) -> Iterator[KillableCluster]:
    """Run both for the length of a block."""
    data = home / "broker"
    with (
        external_postgres(home / "postgres") as postgres,
        killable_broker(data, "--postgres", postgres.dsn) as broker,
    ):
        yield KillableCluster(broker=broker, postgres=postgres)


async def _fetch_count(dsn: str, statement: str) -> int:
    connection = await asyncpg.connect(dsn)
    try:
        return int(await connection.fetchval(statement))
    finally:
        await connection.close()
