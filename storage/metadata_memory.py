"""The metadata port in memory: for simulation and tests, never for data.

Every method runs without a pause, so each is atomic. It passes the same suite as Postgres.
"""

import base64
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Literal
from uuid import UUID

from protocol.batch import NO_PRODUCER_ID
from protocol.ids import Partition
from storage.errors import (
    CommitOutcomeUnknown,
    InvalidPartitionCount,
    TopicAlreadyExists,
    UnknownPartition,
)
from storage.metadata import (
    BatchCommit,
    BatchOutcome,
    PartitionOffsets,
    SegmentEntry,
    SegmentLookup,
    Topic,
    TopicChanges,
)
from storage.metadata_commit import Outcome, check_order, to_outcome
from storage.metadata_memory_brokers import MemoryBrokers
from storage.metadata_memory_groups import MemoryGroups

SEQUENCES = 2**31
MAX_ROWS_PER_LOOKUP = 100


@dataclass(slots=True)
class _Producer:
    """A producer's state in a partition (KIP-98); `recent` holds (first, last, base offset)."""

    epoch: int
    recent: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=5))

    def judge(self, batch: BatchCommit, last_sequence: int) -> tuple[Outcome, int]:
        """Return the outcome, and the base offset of the first copy of a duplicate."""
        if batch.producer_epoch < self.epoch:
            return Outcome.INVALID_PRODUCER_EPOCH, -1
        if batch.producer_epoch > self.epoch:
            in_order = batch.base_sequence == 0
            return (Outcome.APPENDED if in_order else Outcome.OUT_OF_ORDER_SEQUENCE), -1
        for first, last, base_offset in self.recent:
            if (first, last) == (batch.base_sequence, last_sequence):
                return Outcome.DUPLICATE, base_offset
        in_order = batch.base_sequence == (self.recent[-1][1] + 1) % SEQUENCES
        return (Outcome.APPENDED if in_order else Outcome.OUT_OF_ORDER_SEQUENCE), -1


@dataclass(slots=True)
class _Partition:
    log_start_offset: int = 0
    high_watermark: int = 0
    segments: list[SegmentEntry] = field(default_factory=list)
    producers: dict[int, _Producer] = field(default_factory=dict)

    def commit(self, path: str, batch: BatchCommit) -> BatchOutcome:
        if batch.producer_id != NO_PRODUCER_ID:
            last_sequence = (batch.base_sequence + batch.record_count - 1) % SEQUENCES
            producer = self.producers.get(batch.producer_id)
            if producer is not None:
                outcome, first_copy = producer.judge(batch, last_sequence)
                if outcome is Outcome.DUPLICATE:
                    return to_outcome(batch, outcome, first_copy, self.log_start_offset)
                if outcome is not Outcome.APPENDED:
                    return to_outcome(batch, outcome, -1, -1)
            if producer is None or batch.producer_epoch > producer.epoch:
                producer = self.producers[batch.producer_id] = _Producer(batch.producer_epoch)
            producer.recent.append((batch.base_sequence, last_sequence, self.high_watermark))
        base_offset = self.high_watermark
        self.high_watermark += batch.record_count
        self._add_to_index(path, batch, base_offset)
        return to_outcome(batch, Outcome.APPENDED, base_offset, self.log_start_offset)

    def _add_to_index(self, path: str, batch: BatchCommit, base_offset: int) -> None:
        entry = SegmentEntry(
            start_offset=base_offset,
            end_offset=base_offset + batch.record_count - 1,
            path=path,
            start=batch.start,
            length=batch.length,
            max_timestamp_ms=batch.max_timestamp_ms,
        )
        run = self.segments[-1] if self.segments else None
        if run is not None and run.path == path and run.start + run.length == batch.start:
            self.segments[-1] = replace(
                run,
                end_offset=entry.end_offset,
                length=run.length + entry.length,
                max_timestamp_ms=max(run.max_timestamp_ms, entry.max_timestamp_ms),
            )
        else:
            self.segments.append(entry)

    def find(self, lookup: SegmentLookup) -> list[SegmentEntry]:
        found: list[SegmentEntry] = []
        length = 0
        for entry in self.segments:
            if entry.end_offset < lookup.offset:
                continue
            found.append(entry)
            length += entry.length
            if length >= lookup.max_bytes or len(found) == MAX_ROWS_PER_LOOKUP:
                break
        return found


class MemoryMetadata(MemoryBrokers, MemoryGroups):
    """See MetadataStore for what each method promises.

    Args:
        random: where ids come from, so that a seeded simulation repeats itself.
        now_ms: the database's clock.
    """

    def __init__(self, random: Random, now_ms: Callable[[], int] = lambda: 0) -> None:
        MemoryBrokers.__init__(self, now_ms)
        MemoryGroups.__init__(self, now_ms)
        self._random = random
        self._cluster_id = base64.urlsafe_b64encode(random.randbytes(16)).decode().rstrip("=")
        self._version = 0
        self._next_producer_id = 0
        self._topics: dict[UUID, Topic] = {}
        self._changed: dict[UUID, int] = {}  # version of each topic, there or deleted
        self._partitions: dict[Partition, _Partition] = {}
        self._states: dict[str, Literal["pending", "live", "doomed"]] = {}
        self._committed: dict[str, list[BatchOutcome]] = {}

    async def cluster_id(self) -> str:
        return self._cluster_id

    async def reserve_objects(self, paths: Sequence[str]) -> None:
        for path in paths:
            self._states.setdefault(path, "pending")

    async def commit_object(
        self,
        path: str,
        size: int,
        batches: Sequence[BatchCommit],
    ) -> list[BatchOutcome]:
        check_order(batches)
        state = self._states.get(path)
        if state == "live":
            return list(self._committed[path])
        if state != "pending":
            raise CommitOutcomeUnknown(f"{path} is {state or 'not reserved'}")
        outcomes = []
        for batch in batches:
            partition = self._partitions.get(batch.partition)
            if partition is None:
                outcomes.append(to_outcome(batch, Outcome.UNKNOWN_PARTITION, -1, -1))
            else:
                outcomes.append(partition.commit(path, batch))
        self._states[path] = "live"
        self._committed[path] = outcomes
        return list(outcomes)

    async def partition_offsets(
        self, partitions: Sequence[Partition]
    ) -> dict[Partition, PartitionOffsets]:
        return {
            partition: PartitionOffsets(
                log_start_offset=found.log_start_offset, high_watermark=found.high_watermark
            )
            for partition in partitions
            if (found := self._partitions.get(partition))
        }

    async def find_segments(self, lookups: Sequence[SegmentLookup]) -> list[list[SegmentEntry]]:
        return [
            self._partitions.get(lookup.partition, _Partition()).find(lookup) for lookup in lookups
        ]

    async def find_timestamp(self, partition: Partition, timestamp_ms: int) -> SegmentEntry | None:
        segments = self._partitions.get(partition, _Partition()).segments
        return next((entry for entry in segments if entry.max_timestamp_ms >= timestamp_ms), None)

    async def find_max_timestamp(self, partition: Partition) -> SegmentEntry | None:
        segments = self._partitions.get(partition, _Partition()).segments
        return max(segments, key=lambda entry: entry.max_timestamp_ms, default=None)

    async def allocate_producer_ids(self, count: int) -> int:
        self._next_producer_id += count
        return self._next_producer_id - count

    async def topic_changes(self, since_version: int) -> TopicChanges:
        newer = [topic_id for topic_id, at in self._changed.items() if at > since_version]
        return TopicChanges(
            version=self._version,
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
            del self._partitions[Partition(topic_id, index)]
        self._forget_offsets(topic_id)
        del self._topics[topic_id]
        self._touch(topic_id)

    async def add_partitions(self, topic_id: UUID, partition_count: int) -> Topic:
        topic = self._topic(topic_id)
        if partition_count <= topic.partition_count:
            raise InvalidPartitionCount(f"{topic_id} has {partition_count} partitions, or more")
        grown = replace(topic, partition_count=partition_count)
        return self._save(grown, old_count=topic.partition_count)

    async def alter_topic_configs(
        self, topic_id: UUID, changes: Mapping[str, str | None], *, replace: bool
    ) -> Topic:
        topic = self._topic(topic_id)
        wanted = dict(changes) if replace else {**topic.configs, **changes}
        altered = Topic(
            topic_id=topic_id,
            name=topic.name,
            partition_count=topic.partition_count,
            replication_factor=topic.replication_factor,
            configs={key: value for key, value in wanted.items() if value is not None},
        )
        return self._save(altered, old_count=topic.partition_count)

    async def close(self) -> None:
        """Nothing to release."""

    def _topic(self, topic_id: UUID) -> Topic:
        if topic_id not in self._topics:
            raise UnknownPartition(str(topic_id))
        return self._topics[topic_id]

    def _save(self, topic: Topic, *, old_count: int) -> Topic:
        for index in range(old_count, topic.partition_count):
            self._partitions[Partition(topic.topic_id, index)] = _Partition()
        self._topics[topic.topic_id] = topic
        self._touch(topic.topic_id)
        return topic

    def _touch(self, topic_id: UUID) -> None:
        self._version += 1
        self._changed[topic_id] = self._version
