"""The metadata port on Postgres (D2)."""

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace

from protocol.ids import Partition
from sql import hold_queries
from storage.config import PostgresConfig
from storage.errors import CommitOutcomeUnknown
from storage.metadata.metadata_commit import check_order, to_arguments, to_outcomes
from storage.metadata.metadata_postgres_brokers import PostgresBrokers
from storage.metadata.metadata_postgres_entity_configs import PostgresEntityConfigs
from storage.metadata.metadata_postgres_groups import GroupWriter, PostgresGroups
from storage.metadata.metadata_postgres_progress import PostgresProgress
from storage.metadata.metadata_postgres_segments import PostgresSegments, to_entry
from storage.metadata.metadata_postgres_tasks import PostgresTasks
from storage.metadata.metadata_postgres_topics import PostgresTopics
from storage.metadata.metadata_postgres_transactions import PostgresTransactions
from storage.metadata.metadata_postgres_usage import PostgresUsage
from storage.metadata.oldest_xmin import OldestXmin
from storage.metadata.port import BatchCommit, BatchOutcome, SegmentLookup
from storage.partition_offsets import PartitionOffsets
from storage.postgres.commit_connection import CommitConnection
from storage.postgres.migrate import migrate
from storage.postgres.postgres_arrays import partition_columns
from storage.postgres.postgres_pool import PostgresPool, check_sessions
from storage.segment_entry import SegmentEntry

HEARTBEAT_TIMEOUT_S = 1.0  # less than the time after which a silent broker is called dead
MAX_ROWS_PER_LOOKUP = 100  # a lookup that has more is asked again, further on


class PostgresMetadata(
    PostgresTopics,
    PostgresBrokers,
    PostgresEntityConfigs,
    PostgresGroups,
    PostgresProgress,
    PostgresSegments,
    PostgresTasks,
    PostgresTransactions,
    PostgresUsage,
):
    """See MetadataStore for what each method promises.

    Commits run one after the other on a connection of their own, in the order in which they were
    called; so do writes of groups, on another; steps of transactions, and of what is done in the
    background, share a pool, because they may wait for each other; everything else shares another
    one.
    """

    def __init__(
        self,
        pool: PostgresPool,
        commits: CommitConnection,
        group_writer: GroupWriter,
        broker_connection: CommitConnection,
        steps: PostgresPool,
    ) -> None:
        super().__init__(pool)
        self._steps = steps
        self._commits = commits
        self._group_writer = group_writer
        self._broker_connection = broker_connection

    @classmethod
    async def open(cls, dsn: str, config: PostgresConfig | None = None) -> "PostgresMetadata":
        """Connect, and migrate the database if it needs it.

        Raises:
            DatabaseNotSupported: other code migrated that database.
            MetadataUnavailable: no answer; retrying is safe.
        """
        config = config or PostgresConfig()
        hold_queries()
        async with AsyncExitStack() as opened:
            pool = await PostgresPool.open(dsn, config)
            opened.push_async_callback(pool.close)
            steps = await PostgresPool.open(dsn, config)
            opened.push_async_callback(steps.close)
            await check_sessions(pool, steps)
            await migrate(dsn, config)
            opened.pop_all()
        group_writer = GroupWriter(CommitConnection(dsn, config))
        hasty = replace(
            config, connect_timeout_s=HEARTBEAT_TIMEOUT_S, command_timeout_s=HEARTBEAT_TIMEOUT_S
        )
        brokers = CommitConnection(dsn, hasty)
        return cls(pool, CommitConnection(dsn, config), group_writer, brokers, steps)

    async def cluster_id(self) -> str:
        rows = await self._pool.fetch("cluster_id")
        return str(rows[0]["cluster_id"])

    async def store_id(self) -> str | None:
        (row,) = await self._pool.fetch("cluster_store")
        return row["store_id"]  # type: ignore[no-any-return]

    async def claim_store(self, store_id: str) -> str:
        (row,) = await self._pool.fetch_durable("cluster_claim_store", store_id)
        return str(row["store_id"])

    async def reserve_objects(self, paths: Sequence[str]) -> None:
        await self._pool.fetch("object_reserve", list(paths))

    async def commit_object(
        self, path: str, size: int, batches: Sequence[BatchCommit]
    ) -> list[BatchOutcome]:
        check_order(batches)
        arguments = to_arguments(batches)
        (answer,) = await self._commits.fetch("object_commit", path, size, *arguments)
        # What was committed keeps its answer, also once it is doomed because no row needs it.
        if answer["state"] != "live" and answer["last_stable_offsets"] is None:
            raise CommitOutcomeUnknown(f"{path} is {answer['state'] or 'not reserved'}")
        return to_outcomes(
            batches,
            zip(
                answer["outcomes"], answer["base_offsets"], answer["log_start_offsets"], strict=True
            ),
            zip(answer["last_stable_offsets"], answer["aborted_counts"], strict=True),
        )

    async def partition_offsets(
        self, partitions: Sequence[Partition]
    ) -> dict[Partition, PartitionOffsets]:
        rows = await self._pool.fetch("partition_find_offsets", *partition_columns(partitions))
        return {
            Partition(topic_id, index): PartitionOffsets(*offsets)
            for topic_id, index, *offsets in rows
        }

    async def changed_offsets(
        self, known: Mapping[Partition, PartitionOffsets]
    ) -> dict[Partition, PartitionOffsets | None]:
        if not known:
            return {}
        columns = map(list, zip(*known.values(), strict=True))
        partitions = partition_columns(list(known))
        rows = await self._pool.fetch("partition_find_changed", *partitions, *columns)
        return {
            Partition(topic_id, index): None if offsets[0] is None else PartitionOffsets(*offsets)
            for topic_id, index, *offsets in rows
        }

    async def find_segments(self, lookups: Sequence[SegmentLookup]) -> list[list[SegmentEntry]]:
        rows = await self._pool.fetch(
            "segment_find",
            [lookup.partition.topic_id for lookup in lookups],
            [lookup.partition.index for lookup in lookups],
            [lookup.offset for lookup in lookups],
            [lookup.max_bytes for lookup in lookups],
            MAX_ROWS_PER_LOOKUP,
        )
        found: list[list[SegmentEntry]] = [[] for _ in lookups]
        for row in rows:
            found[row["lookup"] - 1].append(to_entry(row))
        return found

    async def find_timestamp(
        self, partition: Partition, timestamp_ms: int, start_offset: int = 0
    ) -> SegmentEntry | None:
        rows = await self._pool.fetch(
            "segment_find_timestamp", *partition, timestamp_ms, start_offset
        )
        return to_entry(rows[0]) if rows else None

    async def find_max_timestamp(
        self, partition: Partition, start_offset: int = 0
    ) -> SegmentEntry | None:
        rows = await self._pool.fetch("segment_find_max_timestamp", *partition, start_offset)
        return to_entry(rows[0]) if rows else None

    async def allocate_producer_ids(self, count: int) -> int:
        rows = await self._pool.fetch_durable("producer_allocate_ids", count)
        return int(rows[0][0])

    async def oldest_xmin(self) -> OldestXmin | None:
        rows = await self._pool.fetch("oldest_xmin")
        return OldestXmin(**rows[0]) if rows else None

    async def close(self) -> None:
        await self._commits.close()
        await self._group_writer.close()
        await self._broker_connection.close()
        await self._steps.close()
        await self._pool.close()
