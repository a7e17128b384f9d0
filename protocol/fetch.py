"""Fetch requests v4-18 by hand: they name up to thousands of partitions.

Tests hold this against the generic codec. v7 has fetch sessions (KIP-227), v11 the consumer's rack
(KIP-392), v12 is the first flexible version, v13 names topics by id (KIP-516).
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from protocol.codec import ElementLimit, read_uvarint, skip_tagged_fields
from protocol.errors import MalformedRequest
from protocol.walk import MAX_TEXT_BYTES

FIRST_FLEXIBLE: Final = 12
FIRST_TOPIC_ID: Final = 13
READ_COMMITTED: Final = 1
FIRST_SESSION: Final = 7
FIRST_RACK: Final = 11
_FIRST_REPLICA_STATE_TAGGED: Final = 15

NO_SESSION: Final = 0
NEW_SESSION: Final = 0  # an epoch
LAST_OF_SESSION: Final = -1  # an epoch, also without any session

_TOPIC_MEMORY: Final = 384  # bytes, of the objects for one of them
_PARTITION_MEMORY: Final = 224
_INDEX_MEMORY: Final = 36
_MAX_ONE_BYTE: Final = 0x7F  # of a varint

_WAIT_MIN_MAX_ISOLATION: Final = struct.Struct(">iiib")
_SESSION: Final = struct.Struct(">ii")  # id, epoch
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")

# partition fields up to partition_max_bytes, by first version
_PARTITION_V4: Final = struct.Struct(">iqi")  # index, fetch_offset, max_bytes
_PARTITION_V5: Final = struct.Struct(">iqqi")  # + log_start_offset
_PARTITION_V9: Final = struct.Struct(">iiqqi")  # + current_leader_epoch
_PARTITION_V12: Final = struct.Struct(">iiqiqi")  # + last_fetched_epoch


@dataclass(slots=True)
class PartitionWanted:
    """Attributes: leader_epoch is -1 where the client does not know one (KIP-320)."""

    index: int
    leader_epoch: int
    offset: int
    max_bytes: int


@dataclass(slots=True)
class _Topic:
    """Attributes: name is empty from v13 on, topic_id None before."""

    name: str
    topic_id: UUID | None

    @property
    def key(self) -> UUID | str:
        """Return what the client knows it by."""
        return self.name if self.topic_id is None else self.topic_id


@dataclass(slots=True)
class TopicWanted(_Topic):
    """Partitions of a topic that are to be read."""

    partitions: list[PartitionWanted]


@dataclass(slots=True)
class TopicForgotten(_Topic):
    """Partitions of a topic that leave a session, by index."""

    partitions: Sequence[int]


@dataclass(slots=True)
class FetchRequest:
    """A Fetch request: wait up to max_wait_ms for min_bytes, return at most about max_bytes.

    Attributes:
        isolation_level: READ_COMMITTED, or else any record is wanted.
        session_id: NO_SESSION if there is none yet, or shall be none (KIP-227).
        session_epoch: NEW_SESSION, LAST_OF_SESSION, or the how manieth request of the session it
            is; then only what changed is named in `topics`, and what is not wanted any more in
            `forgotten`.
        rack: where the consumer stands (client.rack); empty if it does not say.
    """

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: list[TopicWanted]
    forgotten: Sequence[TopicForgotten] = ()
    rack: str = ""


def decode_fetch(frame: bytearray, start: int, version: int) -> FetchRequest:
    """Return the request whose body begins at byte `start` of `frame`.

    Raises:
        MalformedRequest: it does not follow the schema of that version.
    """
    try:
        return _decode(memoryview(frame), start, version)
    except (struct.error, ValueError, IndexError) as error:
        raise MalformedRequest(f"Fetch v{version}: {error}") from error


def _decode(data: memoryview, start: int, version: int) -> FetchRequest:
    if version < _FIRST_REPLICA_STATE_TAGGED:
        start += 4  # replica_id: followers do not exist here (D1)
    max_wait_ms, min_bytes, max_bytes, isolation = _WAIT_MIN_MAX_ISOLATION.unpack_from(data, start)
    start += _WAIT_MIN_MAX_ISOLATION.size
    session_id, session_epoch = NO_SESSION, LAST_OF_SESSION
    if version >= FIRST_SESSION:
        session_id, session_epoch = _SESSION.unpack_from(data, start)
        start += _SESSION.size
    topics = []
    limit = ElementLimit(len(data))
    count, start = _array_length(data, start, version)
    for _ in range(limit.take(count, _TOPIC_MEMORY)):
        topic, start = _decode_topic(data, start, version, limit)
        topics.append(topic)
    forgotten: list[TopicForgotten] = []
    rack = ""
    if version >= FIRST_SESSION:
        count, start = _array_length(data, start, version)
        for _ in range(limit.take(count, _TOPIC_MEMORY)):
            left, start = _decode_forgotten(data, start, version, limit)
            forgotten.append(left)
    if version >= FIRST_RACK:
        rack, start = _read_string(data, start, flexible=version >= FIRST_FLEXIBLE)
    if version >= FIRST_FLEXIBLE and data[start]:  # one zero byte, where there are no tagged fields
        skip_tagged_fields(data, start)
    return FetchRequest(
        *(max_wait_ms, min_bytes, max_bytes, isolation, session_id, session_epoch),
        topics=topics,
        forgotten=forgotten,
        rack=rack,
    )


def _read_string(data: memoryview, start: int, *, flexible: bool) -> tuple[str, int]:
    if flexible:
        size, start = read_uvarint(data, start)
        size -= 1
    else:
        size, start = _INT16.unpack_from(data, start)[0], start + 2
    if not 0 <= size <= MAX_TEXT_BYTES or start + size > len(data):
        raise MalformedRequest(f"a string of {size} bytes")
    return str(data[start : start + size], "utf-8"), start + size


def _array_length(data: memoryview, start: int, version: int) -> tuple[int, int]:
    if version >= FIRST_FLEXIBLE:
        if data[start] <= _MAX_ONE_BYTE:  # as of most
            return data[start] - 1, start + 1
        length, start = read_uvarint(data, start)
        return length - 1, start
    return _INT32.unpack_from(data, start)[0], start + 4


def _read_topic_name(data: memoryview, start: int, version: int) -> tuple[str, UUID | None, int]:
    if version >= FIRST_TOPIC_ID:
        return "", UUID(bytes=bytes(data[start : start + 16])), start + 16
    name, start = _read_string(data, start, flexible=version >= FIRST_FLEXIBLE)
    return name, None, start


def _decode_forgotten(
    data: memoryview, start: int, version: int, limit: ElementLimit
) -> tuple[TopicForgotten, int]:
    name, topic_id, start = _read_topic_name(data, start, version)
    count, start = _array_length(data, start, version)
    indexes = struct.unpack_from(f">{limit.take(count, _INDEX_MEMORY)}i", data, start)
    start += 4 * count
    if version >= FIRST_FLEXIBLE:
        start = skip_tagged_fields(data, start)
    return TopicForgotten(name, topic_id, indexes), start


def _decode_topic(
    data: memoryview, start: int, version: int, limit: ElementLimit
) -> tuple[TopicWanted, int]:
    name, topic_id, start = _read_topic_name(data, start, version)
    count, start = _array_length(data, start, version)
    partitions = []
    for _ in range(limit.take(count, _PARTITION_MEMORY)):
        epoch = -1
        if version >= FIRST_FLEXIBLE:
            index, epoch, offset, _, _, max_bytes = _PARTITION_V12.unpack_from(data, start)
            start += _PARTITION_V12.size
            start = skip_tagged_fields(data, start) if data[start] else start + 1
        elif version >= 9:
            index, epoch, offset, _, max_bytes = _PARTITION_V9.unpack_from(data, start)
            start += _PARTITION_V9.size
        elif version >= 5:
            index, offset, _, max_bytes = _PARTITION_V5.unpack_from(data, start)
            start += _PARTITION_V5.size
        else:
            index, offset, max_bytes = _PARTITION_V4.unpack_from(data, start)
            start += _PARTITION_V4.size
        partitions.append(PartitionWanted(index, epoch, offset, max_bytes))
    if version >= FIRST_FLEXIBLE:
        start = skip_tagged_fields(data, start) if data[start] else start + 1
    return TopicWanted(name, topic_id, partitions), start
