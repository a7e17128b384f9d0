"""The metadata port in memory.

Every method runs without a pause, so each is atomic. It passes the same suite as Postgres.
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from uuid import UUID

from protocol.batch import NO_PRODUCER_ID
from protocol.ids import Partition
from storage.errors import (
    CommitOutcomeUnknown,
    ConfigsChanged,
    InvalidPartitionCount,
    TopicAlreadyExists,
    UnknownPartition,
)
from storage.metadata.metadata_commit import Outcome, check_order, to_outcome
from storage.metadata.oldest_xmin import OldestXmin
from storage.metadata.port import BatchCommit, BatchOutcome, SegmentLookup
from storage.metadata.topics import Topic, TopicChanges
from storage.partition_offsets import PartitionOffsets
from storage.segment_entry import SegmentEntry
from tests.support.fakes.metadata_brokers import MemoryBrokers
from tests.support.fakes.metadata_entity_configs import MemoryEntityConfigs
from tests.support.fakes.metadata_log import MemoryPartition, in_oldest_epoch
from tests.support.fakes.metadata_objects import MemoryObjects
from tests.support.fakes.metadata_progress import MemoryProgress
from tests.support.fakes.metadata_retention import MemoryRetention
from tests.support.fakes.metadata_segments import MemorySegments
from tests.support.fakes.metadata_transactions import MemoryTransactions
from tests.support.fakes.metadata_usage import MemoryUsage


class MemoryMetadata(
    MemoryBrokers,
    MemoryEntityConfigs,
    MemoryProgress,
    MemoryRetention,
    MemorySegments,
    MemoryTransactions,
    MemoryUsage,
):
    """See MetadataStore for what each method promises.

    Args:
        random: where ids come from, so that a seeded simulation repeats itself.
        now_ms: the database's clock.

    Attributes:
        server: which one this is, where a test lets another take over.
    """

    def __init__(self, random: Random, now_ms: Callable[[], int] = lambda: 0) -> None:
        MemoryBrokers.__init__(self, now_ms)
        MemoryEntityConfigs.__init__(self)
        MemorySegments.__init__(self, random)
        MemoryTransactions.__init__(self, now_ms)
        MemoryUsage.__init__(self)
        self._cluster_id = base64.urlsafe_b64encode(random.randbytes(16)).decode().rstrip("=")
        self._store_id: str | None = None
        self._version = 0
        self.server = 0
        self._topics: dict[UUID, Topic] = {}
        self._changed: dict[UUID, int] = {}  # version of each topic, there or deleted
        self._partitions: dict[Partition, MemoryPartition] = {}
        self._deleted: dict[Partition, MemoryPartition] = {}
        self._last_producer_ids: dict[str, int] = {}  # when a topic of a name was deleted
        self._objects = MemoryObjects()

    async def cluster_id(self) -> str:
        return self._cluster_id

    async def store_id(self) -> str | None:
        return self._store_id

    async def claim_store(self, store_id: str) -> str:
        self._store_id = self._store_id or store_id
        return self._store_id

    async def reserve_objects(self, paths: Sequence[str]) -> None:
        for path in paths:
            self._objects.reserve(path, self._now_ms())

    async def commit_object(
        self,
        path: str,
        size: int,
        batches: Sequence[BatchCommit],
    ) -> list[BatchOutcome]:
        check_order(batches)
        uploaded = self._objects.find(path)
        if uploaded is not None and uploaded.outcomes is not None:
            return list(uploaded.outcomes)  # even if its rows, and so it, had to go since
        if uploaded is None or uploaded.state != "pending":
            raise CommitOutcomeUnknown(
                f"{path} is {uploaded.state if uploaded else 'not reserved'}"
            )
        judged = [self._append(path, batch) for batch in in_oldest_epoch(batches)]
        outcomes = [
            self._outcome(batch, outcome, base_offset)
            for batch, (outcome, base_offset) in zip(batches, judged, strict=True)
        ]
        logs = {batch.partition: self._partitions.get(batch.partition) for batch in batches}
        rows = sum(log.index.count_last(path) for log in logs.values() if log is not None)
        uploaded.go_live(size, rows)
        uploaded.outcomes = outcomes
        return list(outcomes)

    async def partition_offsets(
        self, partitions: Sequence[Partition]
    ) -> dict[Partition, PartitionOffsets]:
        return {
            partition: found.offsets()
            for partition in partitions
            if (found := self._partitions.get(partition))
        }

    async def changed_offsets(
        self, known: Mapping[Partition, PartitionOffsets]
    ) -> dict[Partition, PartitionOffsets | None]:
        found = await self.partition_offsets(list(known))
        return {
            partition: found.get(partition)
            for partition, offsets in known.items()
            if found.get(partition) != offsets
        }

    async def delete_records(
        self, offsets: Mapping[Partition, int]
    ) -> dict[Partition, PartitionOffsets]:
        return {
            partition: self._partitions[partition].delete_records(offset)
            for partition, offset in offsets.items()
            if partition in self._partitions
        }

    async def find_segments(self, lookups: Sequence[SegmentLookup]) -> list[list[SegmentEntry]]:
        return [
            self._partitions.get(lookup.partition, MemoryPartition()).index.find(lookup)
            for lookup in lookups
        ]

    async def find_timestamp(
        self, partition: Partition, timestamp_ms: int, start_offset: int = 0
    ) -> SegmentEntry | None:
        segments = self._partitions.get(partition, MemoryPartition()).readable()
        return next(
            (
                entry
                for entry in segments
                if entry.end_offset >= start_offset and entry.max_timestamp_ms >= timestamp_ms
            ),
            None,
        )

    async def find_max_timestamp(
        self, partition: Partition, start_offset: int = 0
    ) -> SegmentEntry | None:
        segments = self._partitions.get(partition, MemoryPartition()).readable()
        wanted = (entry for entry in segments if entry.end_offset >= start_offset)
        return max(wanted, key=lambda entry: entry.max_timestamp_ms, default=None)

    async def allocate_producer_ids(self, count: int) -> int:
        self._next_producer_id += count
        return self._next_producer_id - count

    async def topic_changes(self, since_version: int) -> TopicChanges:
        newer = [topic_id for topic_id, at in self._changed.items() if at > since_version]
        return TopicChanges(
            version=self._version,
            server=self.server,
            changed=[self._topics[topic_id] for topic_id in newer if topic_id in self._topics],
            deleted=[
                topic_id for topic_id in newer if since_version and topic_id not in self._topics
            ],
        )

    async def create_topic(
        self,
        name: str,
        *,
        partition_count: int,
        replication_factor: int,
        configs: Mapping[str, str],
    ) -> Topic:
        if any(topic.name == name for topic in self._topics.values()):
            raise TopicAlreadyExists(name)
        topic = Topic(
            topic_id=UUID(bytes=self._random.randbytes(16), version=4),
            name=name,
            partition_count=partition_count,
            replication_factor=replication_factor,
            configs=dict(configs),
        )
        return self._save(topic, old_count=0)

    async def delete_topic(self, topic_id: UUID) -> None:
        topic = self._topic(topic_id)
        for index in range(topic.partition_count):
            partition = Partition(topic_id, index)
            self._deleted[partition] = self._partitions.pop(partition)
            self._leave_transactions(partition)
        self._forget_offsets(topic_id)
        self._last_producer_ids[topic.name] = self._next_producer_id - 1
        del self._topics[topic_id]
        self._touch(topic_id)

    async def add_partitions(self, topic_id: UUID, partition_count: int) -> Topic:
        topic = self._topic(topic_id)
        if partition_count <= topic.partition_count:
            raise InvalidPartitionCount(f"{topic_id} has {partition_count} partitions, or more")
        grown = replace(topic, partition_count=partition_count)
        return self._save(grown, old_count=topic.partition_count)

    async def alter_topic_configs(
        self,
        topic_id: UUID,
        changes: Mapping[str, str | None],
        *,
        replace: bool,
        expected: Mapping[str, str] | None = None,
    ) -> Topic:
        topic = self._topic(topic_id)
        if expected is not None and expected != topic.configs:
            raise ConfigsChanged(topic.name)
        wanted = dict(changes) if replace else {**topic.configs, **changes}
        altered = Topic(
            topic_id=topic_id,
            name=topic.name,
            partition_count=topic.partition_count,
            replication_factor=topic.replication_factor,
            configs={key: value for key, value in wanted.items() if value is not None},
        )
        return self._save(altered, old_count=topic.partition_count)

    async def oldest_xmin(self) -> OldestXmin | None:
        return None

    async def close(self) -> None:
        """Nothing to release."""

    def _append(self, path: str, batch: BatchCommit) -> tuple[Outcome, int]:
        """Append a batch if nothing is against it; return the outcome and the base offset."""
        partition = self._partitions.get(batch.partition)
        if partition is None:
            return Outcome.UNKNOWN_PARTITION, -1
        if batch.leader_epoch < partition.leader_epoch:
            return Outcome.FENCED_LEADER_EPOCH, -1
        partition.leader_epoch = batch.leader_epoch
        if batch.producer_id != NO_PRODUCER_ID:
            outcome, first_copy = self._judge_batch(batch, partition)
            if outcome is not Outcome.APPENDED:
                return outcome, first_copy
        return Outcome.APPENDED, partition.append(path, batch, self._now_ms())

    def _outcome(self, batch: BatchCommit, outcome: Outcome, base_offset: int) -> BatchOutcome:
        if base_offset < 0:
            return to_outcome(batch, outcome, -1, -1, -1, -1)
        offsets = self._partitions[batch.partition].offsets()
        return to_outcome(
            batch,
            outcome,
            base_offset,
            offsets.log_start_offset,
            offsets.last_stable_offset,
            offsets.aborted_count,
        )

    def _topic(self, topic_id: UUID) -> Topic:
        if topic_id not in self._topics:
            raise UnknownPartition(str(topic_id))
        return self._topics[topic_id]

    def _save(self, topic: Topic, *, old_count: int) -> Topic:
        forgotten = self._last_producer_ids.get(topic.name, -1)
        for index in range(old_count, topic.partition_count):
            self._partitions[Partition(topic.topic_id, index)] = MemoryPartition(
                forgotten_producer_id=forgotten
            )
        self._topics[topic.topic_id] = topic
        self._touch(topic.topic_id)
        return topic

    def _touch(self, topic_id: UUID) -> None:
        self._version += 1
        self._changed[topic_id] = self._version
