"""The metadata port's topics, on Postgres."""

import json
from collections.abc import Mapping
from uuid import UUID

import asyncpg

from protocol.ids import Partition
from storage.errors import (
    ConfigsChanged,
    InvalidPartitionCount,
    TopicAlreadyExists,
    UnknownPartition,
)
from storage.metadata.topics import Topic, TopicChanges
from storage.partition_offsets import PartitionOffsets
from storage.postgres.postgres_arrays import partition_columns
from storage.postgres.postgres_pool import PostgresPool
from storage.postgres.postgres_rows import read_rows

DELETE_TIMEOUT_S = 60.0  # a big topic has millions of rows in the index; they go in one transaction
MAX_PARTITIONS_PER_STEP = 250  # whose locks one statement takes: commits wait some 30 ms for them


class PostgresTopics:
    """Topics; see TopicStore for what each method promises."""

    _steps: PostgresPool  # for what takes locks: who waits for one is not in the way of readers

    def __init__(self, pool: PostgresPool) -> None:
        self._pool = pool

    async def topic_changes(self, since_version: int) -> TopicChanges:
        rows = await self._pool.fetch("topic_find_changes", since_version)
        found = [row for row in rows if row["topic_id"] is not None]
        return TopicChanges(
            version=rows[0]["metadata_version"],
            server=rows[0]["server"],
            changed=await read_rows([row for row in found if not row["deleted"]], _topic),
            deleted=[row["topic_id"] for row in found if row["deleted"]],
        )

    async def create_topic(
        self,
        name: str,
        *,
        partition_count: int,
        replication_factor: int,
        configs: Mapping[str, str],
    ) -> Topic:
        rows = await self._pool.fetch_durable(
            "topic_create", name, partition_count, replication_factor, json.dumps(dict(configs))
        )
        if not rows:
            raise TopicAlreadyExists(name)
        return _topic(rows[0])

    async def delete_topic(self, topic_id: UUID) -> None:
        rows = await self._pool.fetch_durable("topic_delete", topic_id, timeout_s=DELETE_TIMEOUT_S)
        if not rows[0][0]:
            raise UnknownPartition(str(topic_id))

    async def add_partitions(self, topic_id: UUID, partition_count: int) -> Topic:
        rows = await self._pool.fetch_durable("topic_add_partitions", topic_id, partition_count)
        if not rows:
            raise UnknownPartition(str(topic_id))
        if not rows[0]["grown"]:
            raise InvalidPartitionCount(f"{topic_id} has {partition_count} partitions, or more")
        return _topic(rows[0])

    async def alter_topic_configs(
        self,
        topic_id: UUID,
        changes: Mapping[str, str | None],
        *,
        replace: bool,
        expected: Mapping[str, str] | None = None,
    ) -> Topic:
        rows = await self._pool.fetch_durable(
            "topic_alter_configs",
            topic_id,
            json.dumps(dict(changes)),
            replace,
            None if expected is None else json.dumps(dict(expected)),
        )
        if not rows:
            raise UnknownPartition(str(topic_id))
        if not rows[0]["altered"]:
            raise ConfigsChanged(rows[0]["name"])
        return _topic(rows[0])

    async def delete_records(
        self, offsets: Mapping[Partition, int]
    ) -> dict[Partition, PartitionOffsets]:
        found: dict[Partition, PartitionOffsets] = {}
        ascending = sorted(offsets)  # as commits lock them: no deadlock
        for first in range(0, len(ascending), MAX_PARTITIONS_PER_STEP):
            some = ascending[first : first + MAX_PARTITIONS_PER_STEP]
            rows = await self._steps.fetch_durable(
                "partition_delete_records",
                *partition_columns(some),
                [offsets[partition] for partition in some],
            )
            found |= {
                Partition(row["topic_id"], row["partition"]): PartitionOffsets(
                    log_start_offset=row["log_start_offset"],
                    high_watermark=row["high_watermark"],
                    last_stable_offset=row["last_stable_offset"],
                    aborted_count=row["aborted_count"],
                )
                for row in rows
            }
        return found


def _topic(row: asyncpg.Record) -> Topic:
    return Topic(
        topic_id=row["topic_id"],
        name=row["name"],
        partition_count=row["partition_count"],
        replication_factor=row["replication_factor"],
        configs=json.loads(row["configs"]),
    )
