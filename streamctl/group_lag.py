"""How old the first record is that a group has not read, taken from the log itself.

One record is read at the group's offset of each partition that lags, all partitions at once.
No table of times to offsets is exact: Kafka's find a time's offset, not an offset's time.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Consumer, Message, TopicPartition

from streamctl.connection import MOST_ANSWER, Connection, Trouble, consumer
from streamctl.errors import refusal
from streamctl.group_state import PartitionName
from streamctl.reading import timestamp_of

READ_TIMEOUT_S: Final = 10.0
_POLL_S: Final = 0.2
SETTINGS: Final[Mapping[str, str]] = {
    **MOST_ANSWER,
    # librdkafka wants a group's name even where no group is joined and no offset committed
    "group.id": "streamctl",
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    # retention may have removed the offset: then the oldest record that is left counts
    "auto.offset.reset": "earliest",
    "enable.partition.eof": "true",
    # what an open transaction wrote waits for its reader, too
    "isolation.level": "read_uncommitted",
    # little of each partition, for many in one answer; at least one batch (KIP-74) always
    "message.max.bytes": "65536",
    "max.partition.fetch.bytes": "65536",
    "fetch.max.bytes": "1048576",
    # the records after the first only fill the queue, which must not stop the other partitions
    "queued.min.messages": "1",
    "queued.max.messages.kbytes": "1024",
    "fetch.queue.backoff.ms": "5",
    "fetch.wait.max.ms": "100",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OldestUnread:
    """The first record at or after an offset.

    Attributes:
        exists: False if there is none: control records (KIP-98) and compaction leave gaps.
        timestamp_ms: None if it has none.
        refusal: why the broker did not let us read; empty if it did.
    """

    exists: bool = False
    timestamp_ms: int | None = None
    refusal: str = ""


def oldest_unread(
    connection: Connection, offsets: Mapping[PartitionName, int]
) -> dict[PartitionName, OldestUnread]:
    """Return what is the first record at or after each offset.

    Returns:
        By partition; those that did not answer within READ_TIMEOUT_S are missing.
    """
    if not offsets:
        return {}
    reader = consumer(connection, Trouble(), SETTINGS)
    try:
        return _read_one_each(reader, offsets)
    finally:
        reader.close()


def lag_seconds(unread: OldestUnread | None, *, now_ms: int) -> float | None:
    """Return how long ago the oldest unread record was produced; None if that is not known."""
    if unread is None or unread.refusal:
        return None
    if not unread.exists:
        return 0.0
    if unread.timestamp_ms is None:
        return None
    return max(0, now_ms - unread.timestamp_ms) / 1000  # a producer's clock may be ahead


def _read_one_each(
    reader: Consumer, offsets: Mapping[PartitionName, int]
) -> dict[PartitionName, OldestUnread]:
    reader.assign([TopicPartition(topic, at, offset) for (topic, at), offset in offsets.items()])
    found: dict[PartitionName, OldestUnread] = {}
    give_up = time.monotonic() + READ_TIMEOUT_S
    while len(found) < len(offsets) and time.monotonic() < give_up:
        message = reader.poll(_POLL_S)
        if message is None or message.topic() is None:
            continue  # errors of no partition are the coordinator's, and nobody asked it
        topic, partition = message.topic(), message.partition()
        assert topic is not None  # a partition's message names it
        assert partition is not None
        if (topic, partition) not in found:
            found[topic, partition] = _unread(message)
            reader.incremental_unassign([TopicPartition(topic, partition)])  # no more of it
    return found


def _unread(message: Message) -> OldestUnread:
    error = message.error()
    if error is None:
        return OldestUnread(exists=True, timestamp_ms=timestamp_of(message)[1])
    if error.name() == "_PARTITION_EOF":
        return OldestUnread()
    place = f"topic {message.topic()!r} partition {message.partition()}"
    return OldestUnread(refusal=refusal(place, error).message)
