"""Writes a recovered index into an empty database: all of it in one transaction, or nothing."""

import json
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Final, Self
from uuid import UUID

from protocol.ids import Partition
from sql import query
from storage.config import PostgresConfig
from storage.objects.store_marker import StoreMark
from storage.postgres.migrate import migrate
from storage.postgres.postgres_connection import (
    Connection,
    connect_unlimited,
    unavailable_without_answer,
)
from storage.recovery.recover_partition import RebuiltPartition
from storage.recovery.recover_producers import RETAINED_BATCHES, KnownProducer
from storage.recovery.recover_report import KEEPING
from storage.recovery.recover_segments import stable_offsets
from storage.recovery.recover_topics import FoundTopic

SCHEMA: Final = "streamhouse_internal"
ANSWER_S: Final = 600.0
_NO_OFFSET: Final = -1
_SEGMENTS: Final = (
    *("topic_id", "partition", "start_offset", "end_offset", "object_id", "byte_start"),
    *("byte_length", "max_timestamp_ms", "index_length", "inline"),
)
_PARTITIONS: Final = (
    *("topic_id", "partition", "log_start_offset", "high_watermark", "aborted_count"),
    *("leader_epoch", "built_offset", "reserved_offset", "purged_offset"),
    "forgotten_producer_id",
)
_PRODUCERS: Final = (
    *("topic_id", "partition", "producer_id", "producer_epoch", "last_sequence", "next_slot"),
    *("first_sequences", "last_sequences", "base_offsets"),
)
_ABORTED: Final = (
    *("topic_id", "partition", "last_offset", "producer_id", "first_offset"),
    "last_stable_offset",
)


class DatabaseNotEmpty(Exception):
    """The database has an index already; the message says what it holds."""


class EmptyDatabase:
    """One open transaction on a database that nobody uses yet."""

    def __init__(self, connection: Connection) -> None:
        self._db = connection
        self._last_producer_id = -1

    @classmethod
    @asynccontextmanager
    async def open(cls, dsn: str, config: PostgresConfig, *, keep: bool) -> AsyncIterator[Self]:
        """Make the schema, and begin; what was written is there afterwards if all went well.

        Args:
            dsn: of the database.
            config: how it is reached.
            keep: False: nothing but the schema is there afterwards.

        Raises:
            DatabaseNotEmpty: there is an index in it.
            MetadataUnavailable: no answer, or no entry.
        """
        await migrate(dsn, config)
        connection = await connect_unlimited(dsn, config, command_timeout_s=ANSWER_S)
        try:
            with unavailable_without_answer():
                transaction = connection.transaction()
                await transaction.start()
                await _check_empty(connection)
                yield cls(connection)
                await (transaction.commit() if keep else transaction.rollback())
        finally:
            connection.terminate()

    async def set_cluster(
        self, mark: StoreMark | None, *, next_producer_id: int, generation: int
    ) -> tuple[str, int]:
        """Give it a cluster's id, or keep its own; return that, and the next producer's id.

        Args:
            mark: of the cluster's object store, if there is one.
            next_producer_id: at the least.
            generation: of the brokers, at the least.
        """
        statement = query("recover_set_cluster")
        cluster_id, store_id = (mark.cluster_id, mark.store_id) if mark else (None, None)
        row = await self._db.fetchrow(statement, cluster_id, next_producer_id, generation, store_id)
        assert row is not None, "migrations make it"
        self._last_producer_id = row["next_producer_id"] - 1
        return str(row["cluster_id"]), int(row["next_producer_id"])

    async def keep_records(self) -> dict[str, str]:
        """Set those of KEEPING of the whole cluster that nobody has set yet; return these."""
        statement = query("recover_keep_records")
        configs = json.loads(await self._db.fetchval(statement, json.dumps(KEEPING)))
        return {name: value for name, value in KEEPING.items() if configs[name] == value}

    async def add_objects(self, objects: Sequence[tuple[str, int]]) -> list[tuple[int, str]]:
        """Add paths with their sizes; return ids with their paths."""
        paths = [path for path, _ in objects]
        sizes = [size for _, size in objects]
        rows = await self._db.fetch(query("recover_add_objects"), paths, sizes)
        return [(row["object_id"], row["path"]) for row in rows]

    async def remove_objects(self, paths: Sequence[str]) -> None:
        """Forget objects that no row names: whoever sweeps the store leaves them there."""
        await self._db.execute(query("recover_remove_objects"), paths)

    async def add_topics(self, topics: Iterable[tuple[UUID, FoundTopic]]) -> None:
        """Add topics, without their partitions."""
        await self._copy(
            "topics",
            ("topic_id", "name", "partition_count", "replication_factor", "configs", "version"),
            [
                (topic_id, topic.name, topic.partition_count, 1, json.dumps(topic.configs or {}), 1)
                for topic_id, topic in topics
            ],
        )

    async def add_folders(self, folders: Iterable[tuple[str, UUID]]) -> None:
        """Add where segments lie, of topics that are gone, too."""
        await self._copy("topic_folders", ("folder", "topic_id"), list(folders))

    async def add_partition(
        self, partition: Partition, rebuilt: RebuiltPartition, object_id: Callable[[str], int]
    ) -> None:
        """Add a partition with its rows; any producer may go on there: most are forgotten."""
        await self._copy(
            "segments",
            _SEGMENTS,
            [
                (
                    *(*partition, row.start_offset, row.end_offset),
                    None if row.inline is not None else object_id(row.path),
                    *(row.start, row.length, row.max_timestamp_ms),
                    *(row.index_length or None, row.inline),
                )
                for row in rebuilt.rows
            ],
        )
        known = rebuilt.producers.known.items()
        await self._copy("producers", _PRODUCERS, [(*partition, *_producer(*one)) for one in known])
        stable = stable_offsets(rebuilt.aborted)
        await self._copy(
            "aborted_transactions",
            _ABORTED,
            [
                (*partition, one.last_offset, one.producer_id, one.first_offset, last_stable_offset)
                for one, last_stable_offset in zip(rebuilt.aborted, stable, strict=True)
            ],
        )
        start, end = rebuilt.log_start_offset, rebuilt.high_watermark
        fields = (start, end, len(rebuilt.aborted), rebuilt.leader_epoch, rebuilt.built_offset)
        row = (*partition, *fields, end - 1, start, self._last_producer_id)
        await self._copy("partitions", _PARTITIONS, [row])

    async def finish(self) -> int:
        """Make objects live that rows name; return how many others there are."""
        await self._db.execute(query("recover_set_live"))
        return int(await self._db.fetchval(query("recover_count_pending")))

    async def _copy(
        self, table: str, columns: Sequence[str], records: Sequence[Sequence[object]]
    ) -> None:
        if records:
            await self._db.copy_records_to_table(
                table, schema_name=SCHEMA, columns=list(columns), records=records
            )


async def _check_empty(connection: Connection) -> None:
    row = await connection.fetchrow(query("recover_find_contents"))
    assert row is not None
    held = [f"{count:,} {name.replace('_', ' ')}" for name, count in row.items() if count]
    if held:
        raise DatabaseNotEmpty(f"the database is not empty: it has {', '.join(held)}")


def _producer(producer_id: int, known: KnownProducer) -> tuple[object, ...]:
    """Return a producer as the index keeps it: a ring of five slots, the oldest at next_slot."""
    empty = [_NO_OFFSET] * (RETAINED_BATCHES - len(known.batches))
    next_slot = len(known.batches) % RETAINED_BATCHES + 1
    first, last, base = ([*(batch[field] for batch in known.batches), *empty] for field in range(3))
    return producer_id, known.producer_epoch, known.last_sequence, next_slot, first, last, base
