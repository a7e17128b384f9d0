"""The index of the log as one snapshot sees it: topics, offsets, rows, aborted transactions.

One connection, one read-only transaction at REPEATABLE READ: all that it answers is of one moment,
the first question's, over all partitions of all topics. Nothing is locked, and no broker is asked.
A snapshot keeps Postgres from removing dead rows, so it is held for a plan, not for a job.
"""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from protocol.ids import Partition
from spark.sources.cut import Range, TopicPartition
from spark.sources.split import Aborted
from sql import query
from storage.config import PostgresConfig
from storage.metadata.metadata_postgres_segments import to_entry
from storage.partition_offsets import PartitionOffsets
from storage.postgres.postgres_connection import Connection, connect, unavailable_without_answer
from storage.segment_entry import SegmentEntry
from storage.set_back import refuse_set_back

STATEMENT_S: Final = 60.0
IDLE: Final = "10min"  # while objects are read to find a timestamp
PAGE: Final = 10_000

Topics = dict[TopicPartition, PartitionOffsets]


@dataclass(frozen=True, slots=True)
class LogIndex:
    """Answers of one moment, made by `open`; of one each, made by `on`."""

    _connection: Connection

    @classmethod
    @asynccontextmanager
    async def open(cls, postgres: str) -> AsyncIterator["LogIndex"]:
        """Give a snapshot of the database that the DSN names; it ends with the block.

        Raises:
            MetadataUnavailable: Postgres gave no answer; retrying is safe.
            MetadataWentBack: brokers have marked the database as one that was set back.
        """
        connection = await connect(postgres, PostgresConfig(command_timeout_s=2 * STATEMENT_S))
        try:
            with unavailable_without_answer():
                async with connection.transaction(isolation="repeatable_read", readonly=True):
                    await connection.execute(query("session_allow_idle"), IDLE)
                    yield await cls.on(connection)
        finally:
            await connection.close(timeout=STATEMENT_S)

    @classmethod
    async def on(cls, connection: Connection) -> "LogIndex":
        """Ask on a connection, which may be kept.

        Raises:
            MetadataWentBack: brokers have marked the database as one that was set back.
        """
        refuse_set_back(await connection.fetch(query("cluster_find_set_back")))
        return cls(connection)

    async def topics(self, names: Collection[str] | None = None) -> Topics:
        """Return the partitions of these topics, or of all, and what each holds; by name.

        A topic that does not exist has no partition here.
        """
        listed = None if names is None else sorted(names)
        return {
            TopicPartition(
                topic=row["name"], partition=row["partition"], topic_id=row["topic_id"]
            ): PartitionOffsets(
                log_start_offset=row["log_start_offset"],
                high_watermark=row["high_watermark"],
                last_stable_offset=row["last_stable_offset"],
                aborted_count=row["aborted_count"],
            )
            for row in await self._connection.fetch(query("scan_find_topics"), listed)
        }

    async def offsets(self, partitions: Collection[TopicPartition]) -> Topics:
        """Return what each of these partitions holds; one that is gone is left out.

        A topic that was deleted and made again is another one: its id differs.
        """
        wanted = sorted(partitions)
        rows = await self._connection.fetch(
            query("partition_find_offsets"),
            [each.topic_id for each in wanted],
            [each.partition for each in wanted],
        )
        names = {each.topic_id: each.topic for each in wanted}
        return {
            TopicPartition(
                topic=names[row["topic_id"]], partition=row["partition"], topic_id=row["topic_id"]
            ): PartitionOffsets(
                log_start_offset=row["log_start_offset"],
                high_watermark=row["high_watermark"],
                last_stable_offset=row["last_stable_offset"],
                aborted_count=row["aborted_count"],
            )
            for row in rows
        }

    async def rows(
        self, partition: TopicPartition, offsets: Range, *, min_timestamp_ms: int | None = None
    ) -> list[SegmentEntry]:
        """Return the rows that reach into a range of offsets, in order; none if it is gone.

        Args:
            partition: that they are of.
            offsets: the first row may begin before them, the last one end behind.
            min_timestamp_ms: rows that only hold earlier records are left out.
        """
        found: list[SegmentEntry] = []
        start = offsets.start
        while True:
            page = await self._connection.fetch(
                query("scan_find_rows"),
                *(partition.topic_id, partition.partition, start, offsets.end),
                *(min_timestamp_ms, PAGE),
            )
            found += map(to_entry, page)
            if len(page) < PAGE:
                return found
            start = found[-1].end_offset + 1

    async def aborted(self, partition: TopicPartition, offsets: Range) -> tuple[Aborted, ...]:
        """Return aborted transactions with records in a range, by last offset."""
        found: list[Aborted] = []
        start = offsets.start
        while True:
            page = await self._connection.fetch(
                query("transaction_find_aborted"),
                *(partition.topic_id, partition.partition, start, offsets.end, PAGE),
            )
            found += (
                Aborted(
                    producer_id=row["producer_id"],
                    first_offset=row["first_offset"],
                    last_offset=row["last_offset"],
                )
                for row in page
                if row["producer_id"] is not None
            )
            if len(page) < PAGE:
                return tuple(found)
            start = found[-1].last_offset + 1

    async def row_at_or_after(
        self, partition: TopicPartition, timestamp_ms: int, start_offset: int
    ) -> SegmentEntry | None:
        """Return the first row that may have a record of that time or later, from an offset on."""
        rows = await self._connection.fetch(
            query("segment_find_timestamp"),
            *Partition(partition.topic_id, partition.partition),
            timestamp_ms,
            start_offset,
        )
        return to_entry(rows[0]) if rows else None
