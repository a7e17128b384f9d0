"""Records that a group has copied from one topic to another, and whence each of them came."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from tests.groups.history import Ownership

SILENCE_S = 60.0

Place = tuple[int, int]
"""Partition and offset."""


def copies_in(bootstrap: str, topic: str, partition_count: int) -> dict[Place, tuple[Place, str]]:
    """Return for each record of a topic where it was copied from, and its value."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "none", "enable.partition.eof": True}
    )
    partitions = range(partition_count)
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
    found: dict[Place, tuple[Place, str]] = {}
    unfinished = set(partitions)
    while unfinished:
        message = consumer.poll(SILENCE_S)
        assert message is not None, f"{topic} is not read to its end: {unfinished}"
        partition, offset, error = message.partition(), message.offset(), message.error()
        assert partition is not None
        assert offset is not None
        if error is None:
            found[partition, offset] = (_source(message.headers()), _text(message.value()))
        elif error.code() == KafkaError._PARTITION_EOF:
            unfinished.discard(partition)
        else:
            raise KafkaException(error)
    consumer.close()
    return found


def _source(headers: object) -> Place:
    assert isinstance(headers, list)
    ((_, source),) = headers
    partition, offset = source.split()
    return int(partition), int(offset)


def _text(value: str | bytes | None) -> str:
    assert isinstance(value, bytes)
    return value.decode()


def reads(owners: Mapping[int, Sequence[Ownership]]) -> Counter[Place]:
    """Return how often the members of a group read each record."""
    return Counter(
        (partition, offset)
        for partition, those in owners.items()
        for one in those
        for offset in one.offsets
    )


def record_counts_of(places: Iterable[Place]) -> dict[int, int]:
    """Return how many records each partition has, from the places of all of them."""
    return dict(Counter(partition for partition, _ in places))
