"""The records of a topic in another one with another number of partitions; pure but for the topic.

Which partition: a key goes where Kafka's Java clients put it (murmur2), so who goes on writing to
the new topic with such a client finds its keys there; librdkafka needs partitioner=murmur2_random.
A record without a key goes by its place in the old topic, a thousand offsets at a time: asked
again, it goes to the same partition, which a shuffle that is repeated in parts relies on.

Which order: of a partition of the new topic, one task writes all records of a micro-batch, in the
order of (old partition, offset), and micro-batches follow each other. So records that had an order
keep it: those of one old partition that go to the same new one. A topic that is partitioned by
key, as Kafka's producers do it, has all records of a key in one old partition, whatever their hash:
then the order of each key is kept. Where a key was written to several (by hand, by producers with
other hashes, or before partitions were added) nothing has ever told the order between those; each
of them keeps its own, within a micro-batch one follows the other.

Keys, values, headers and timestamps stay what they were, null or empty; tombstones are records like
others. Offsets are new ones, without gaps. Aborted records and markers of transactions are left
out (read_committed), and so is the identity of idempotent producers.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from re import compile as compiled
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from protocol.ids import Partition
from spark.sinks.direct_partitions import STICKY_RECORDS, choose_partitions
from storage.errors import TopicAlreadyExists
from storage.metadata.port import MetadataStore
from storage.metadata.topics import Topic

SCHEMA: Final = (
    "key binary, value binary, headers array<struct<key: string, value: binary>>,"
    " timestamp timestamp, old_partition int, old_offset long, partition int"
)
TIMESTAMP_TYPE: Final = "message.timestamp.type"
CREATE_TIME: Final = "CreateTime"
NO_LIMIT_MS: Final = str(2**63 - 1)
NO_LIMITS: Final = {
    "message.timestamp.before.max.ms": NO_LIMIT_MS,
    "message.timestamp.after.max.ms": NO_LIMIT_MS,
    "max.message.bytes": str(2**31 - 1),
}
"""Records may be older than limits, also than those of the cluster, and compress to other sizes."""

TAKES_ALL: Final = {
    **NO_LIMITS,
    "confluent.key.schema.validation": "false",
    "confluent.value.schema.validation": "false",
}
"""What keeps records of the old topic out of the new one; nobody validates schemas without brokers.

So does a cleanup.policy that has become compact since: what has no key then ends a copy.
"""

_NAME: Final = compiled(r"[a-zA-Z0-9._-]{1,249}")


class CopyRefused(LookupError):
    """The two topics cannot be what was asked for; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """From which topic into which.

    Attributes:
        partition_count: of the new topic; None if it is there already.
    """

    source: str
    target: str
    partition_count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The new topic.

    Attributes:
        to_set: configs as the old one has them, which it does not have while records are copied;
            None is to be unset.
    """

    partition_count: int
    to_set: Mapping[str, str | None]


def repartitioned(records: DataFrame, partition_count: int) -> DataFrame:
    """Return records as the direct sink takes them; of a new partition, all are in one task.

    Args:
        records: columns of format("kafka") with headers; a micro-batch.
        partition_count: of the new topic.
    """
    named = records.selectExpr(
        *("key", "value", "headers", "timestamp"),
        *("partition as old_partition", "offset as old_offset", "0 as partition"),
    )
    placed = named.mapInArrow(partial(_placed, partition_count), SCHEMA)
    tasks = max(1, min(partition_count, records.sparkSession.sparkContext.defaultParallelism * 4))
    grouped = placed.repartition(tasks, "partition")
    ordered = grouped.sortWithinPartitions("partition", "old_partition", "old_offset")
    return ordered.select("key", "value", "headers", "timestamp", "partition")


def _placed(partition_count: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        at = batch.schema.get_field_index("partition")
        chosen = pa.array(place(batch, partition_count), pa.int32())
        yield batch.set_column(at, batch.schema.field(at), chosen)


def place(batch: pa.RecordBatch, partition_count: int) -> np.ndarray:
    """Return the new partition of each record: see the module's docstring."""
    keys = batch.column("key")
    chosen = choose_partitions(keys, partition_count, 0)
    if not keys.null_count:
        return chosen.astype(np.int32)
    offsets = batch.column("old_offset").to_numpy(zero_copy_only=False)
    partitions = batch.column("old_partition").to_numpy(zero_copy_only=False)
    by_place = (partitions + offsets // STICKY_RECORDS) % partition_count
    keyless = pc.is_null(keys).to_numpy(zero_copy_only=False)
    return np.where(keyless, by_place, chosen).astype(np.int32)


async def prepare_target(metadata: MetadataStore, copy: Copy, *, is_resumed: bool) -> Target:
    """Return what the new topic is; it is made if it is not there.

    It gets the configs of the old one, but for times: those of its records are kept, so the topic
    does not set them (CreateTime); and for what records may not fit (TAKES_ALL). Dying before, in
    or after it does no harm: it is found empty.

    Args:
        metadata: of the cluster.
        copy: what was asked for.
        is_resumed: records may be there already, and be those of this copy.

    Raises:
        CopyRefused: see there.
        MetadataUnavailable: no answer.
    """
    topics = {each.name: each for each in (await metadata.topic_changes(0)).changed}
    if copy.source not in topics:
        raise CopyRefused(f"there is no topic {copy.source}")
    if copy.source == copy.target:
        raise CopyRefused("a topic cannot be copied into itself: name another one")
    if is_resumed and copy.target not in topics:
        raise CopyRefused(
            f"{copy.target} is gone, and with it what was copied: to begin anew, give another"
            " --checkpoint, or remove the one of the copy"
        )
    source = topics[copy.source]
    target = topics.get(copy.target) or await _made(metadata, copy, source)
    if copy.partition_count not in {None, target.partition_count}:
        raise CopyRefused(f"{copy.target} is there, and has {target.partition_count} partitions")
    if target.configs.get(TIMESTAMP_TYPE, CREATE_TIME) != CREATE_TIME:
        raise CopyRefused(f"{copy.target} sets timestamps itself; set {TIMESTAMP_TYPE}=CreateTime")
    if not is_resumed and await _has_records(metadata, target):
        raise CopyRefused(
            f"{copy.target} has records already: name an empty topic, or, if a run before has"
            " written them, the --checkpoint of that run"
        )
    return Target(partition_count=target.partition_count, to_set=_to_set(source, target))


async def _made(metadata: MetadataStore, copy: Copy, source: Topic) -> Topic:
    if copy.partition_count is None:
        raise CopyRefused(f"there is no topic {copy.target}: --partitions N makes it")
    if not _NAME.fullmatch(copy.target) or copy.target in {".", ".."}:
        raise CopyRefused(f"{copy.target!r} cannot be the name of a topic")
    taking_all = {name: TAKES_ALL[name] for name in TAKES_ALL.keys() & source.configs}
    try:
        return await metadata.create_topic(
            copy.target,
            partition_count=copy.partition_count,
            replication_factor=source.replication_factor,
            configs={**source.configs, TIMESTAMP_TYPE: CREATE_TIME, **NO_LIMITS, **taking_all},
        )
    except TopicAlreadyExists as error:
        raise CopyRefused(f"somebody else has made {copy.target} meanwhile") from error


def _to_set(source: Topic, target: Topic) -> dict[str, str | None]:
    """Return what differs; where the old one has nothing, what somebody chose is left as it is."""
    theirs = {name: source.configs.get(name) for name in TAKES_ALL}
    ours = {name: target.configs.get(name) for name in TAKES_ALL}
    return {
        name: theirs[name]
        for name, lifted in TAKES_ALL.items()
        if ours[name] != theirs[name] and (theirs[name] is not None or ours[name] == lifted)
    }


async def _has_records(metadata: MetadataStore, topic: Topic) -> bool:
    partitions = [Partition(topic.topic_id, index) for index in range(topic.partition_count)]
    offsets = await metadata.partition_offsets(partitions)
    return any(each.high_watermark for each in offsets.values())
