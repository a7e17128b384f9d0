"""Records as a consumer got them, and what must hold for them whichever client read them."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from tests.clients.flights import Flight

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumedRecord:
    """One record with everything that Kafka keeps about it.

    Attributes:
        timestamp_ms: CreateTime, milliseconds since 1970.
        key: None is a null key, which is not an empty one.
        value: None is a tombstone, which is not an empty value.
        headers: in the order of the record; a name may stand there twice.
    """

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SentRecord:
    """One record as a producer is given it.

    Attributes:
        timestamp_ms: None leaves it to the producer's clock.
    """

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int | None = None


READERS: Final = ("confluent", "aiokafka", "kcat", "console_consumer", "spark")
Reader = Callable[[str], list[ConsumedRecord]]
"""Reads a topic from its beginning to its end; each partition's records stay in delivered order."""


def by_partition(records: Iterable[ConsumedRecord]) -> dict[int, list[ConsumedRecord]]:
    """Group records by partition, in the order they came."""
    partitions: defaultdict[int, list[ConsumedRecord]] = defaultdict(list)
    for record in records:
        partitions[record.partition].append(record)
    return dict(partitions)


def check_dense_offsets(records: Iterable[ConsumedRecord]) -> None:
    """Every partition's offsets came as 0, 1, 2, ... without gap, repetition or step back."""
    for partition, members in by_partition(records).items():
        for expected, record in enumerate(members):
            if record.offset != expected:
                raise AssertionError(
                    f"partition {partition}: offset {record.offset} came where {expected} belongs"
                )


def check_same_flights(records: Sequence[ConsumedRecord], flights: Sequence[Flight]) -> None:
    """As many records as flights, each key in one partition, its values in the order sent.

    The comparison is done here rather than by pytest, whose report on two lists of this size takes
    minutes.
    """
    if len(records) != len(flights):
        raise AssertionError(f"{len(records)} records, but {len(flights)} flights were sent")
    received: defaultdict[bytes | None, list[bytes | None]] = defaultdict(list)
    partitions: defaultdict[bytes | None, set[int]] = defaultdict(set)
    for record in records:
        received[record.key].append(record.value)
        partitions[record.key].add(record.partition)
    sent: defaultdict[bytes | None, list[bytes]] = defaultdict(list)
    for flight in flights:
        sent[flight.key].append(flight.value)

    if received.keys() != sent.keys():
        raise AssertionError(f"keys {set(received)}, but {set(sent)} were sent")
    scattered = {key: found for key, found in partitions.items() if len(found) > 1}
    if scattered:
        raise AssertionError(f"keys in several partitions: {scattered}")
    for key, values in sent.items():
        for position, (one, other) in enumerate(zip_longest(values, received[key])):
            if one != other:
                raise AssertionError(f"record {position} of key {key!r} is {other!r}, sent {one!r}")
