"""The metadata port's brokers, on Postgres."""

import asyncio
from collections.abc import Sequence
from uuid import UUID

import asyncpg

from storage.errors import BrokerDisplaced, IdentityTaken
from storage.metadata.brokers import BrokerLife, BrokerRecord, Membership
from storage.metadata.metadata_postgres_groups import GroupWriter
from storage.postgres.commit_connection import CommitConnection
from storage.postgres.migrate import check_version
from storage.postgres.postgres_pool import PostgresPool


class PostgresBrokers:
    """Brokers; see BrokerStore for what each method promises.

    Heartbeats have a connection of their own, with short timeouts: they wait for no slow statement,
    and a lost connection is noticed before others call this broker dead. Who joins has the sessions
    that it cannot do without: else it would lead partitions that it can never append to, where
    a pooler, or the server, has no more of them to give.
    """

    _broker_connection: CommitConnection
    _commits: CommitConnection
    _group_writer: GroupWriter
    _pool: PostgresPool

    async def register_broker(
        self,
        incarnation: UUID,
        addresses: Sequence[str],
        *,
        rack: str | None,
        preferred_node_id: int,
        alone: bool,
        time_to_live_ms: int,
    ) -> Membership:
        await asyncio.gather(self._commits.hold(), self._group_writer.hold())
        rows = await self._broker_connection.fetch(
            *("broker_register", incarnation, list(addresses), rack),
            *(preferred_node_id, alone, time_to_live_ms),
        )
        if not rows:
            raise IdentityTaken(f"a broker that is alive advertises {addresses[0]}")
        await check_version(self._pool)
        return _membership(rows)

    async def broker_heartbeat(
        self, node_id: int, incarnation: UUID, *, known_generation: int, time_to_live_ms: int
    ) -> Membership:
        rows = await self._broker_connection.fetch(
            "broker_heartbeat", node_id, incarnation, known_generation, time_to_live_ms
        )
        if not rows:
            raise BrokerDisplaced(
                f"another process has registered as broker {node_id}, or this one was away while a "
                f"newer version came, or for a day"
            )
        return _membership(rows)

    async def deregister_broker(self, node_id: int, incarnation: UUID) -> Membership:
        return _membership(
            await self._broker_connection.fetch("broker_deregister", node_id, incarnation)
        )

    async def dead_brokers(self) -> list[BrokerRecord]:
        return [_record(row) for row in await self._pool.fetch("broker_find_dead")]

    async def forget_broker(self, node_id: int) -> BrokerLife:
        (row,) = await self._pool.fetch_durable("broker_forget", node_id)
        return BrokerLife(row["life"])


def _record(row: asyncpg.Record) -> BrokerRecord:
    return BrokerRecord(node_id=row["node_id"], addresses=tuple(row["addresses"]), rack=row["rack"])


def _membership(rows: Sequence[asyncpg.Record]) -> Membership:
    known = [row for row in rows if row["node_id"] is not None]
    return Membership(
        node_id=rows[0]["this_node_id"],
        generation=rows[0]["generation"],
        brokers=[_record(row) for row in known if row["addresses"]],
        dead=[_record(row) for row in known if not row["addresses"]],
    )
