"""Produce requests v3-13 by hand: the hot path hands record batches on as views into the frame.

The generic codec would copy each batch; tests hold this against it. v9 is the first
flexible version (KIP-482), v13 names topics by id (KIP-516). v0-2 carry the record formats that
ended with Kafka 4.0 (KIP-724).
"""

import struct
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from protocol.codec import ElementLimit, read_uvarint, skip_tagged_fields
from protocol.errors import MalformedRequest
from protocol.walk import MAX_TEXT_BYTES

FIRST_FLEXIBLE: Final = 9
FIRST_TOPIC_ID: Final = 13

_TOPIC_MEMORY: Final = 384  # bytes, of the objects for one of them
_PARTITION_MEMORY: Final = 320

_ACKS_TIMEOUT: Final = struct.Struct(">hi")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INDEX_SIZE: Final = struct.Struct(">ii")


@dataclass(slots=True)
class TopicData:
    """What one request has for one topic.

    Attributes:
        name: empty from v13 on.
        topic_id: None before v13.
        partitions: (partition index, its one record batch or None), in request order.
    """

    name: str
    topic_id: UUID | None
    partitions: list[tuple[int, memoryview | None]]


@dataclass(slots=True)
class ProduceRequest:
    """A Produce request; the record batches are views into the frame that it came in."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[TopicData]


def decode_produce(frame: bytearray, start: int, version: int) -> ProduceRequest:
    """Return the request whose body begins at byte `start` of `frame`.

    Raises:
        MalformedRequest: it does not follow the schema of that version.
    """
    try:
        if version >= FIRST_FLEXIBLE:
            return _decode_flexible(memoryview(frame), start, version)
        return _decode_legacy(memoryview(frame), start)
    except (struct.error, ValueError, IndexError) as error:
        raise MalformedRequest(f"Produce v{version}: {error}") from error


def _take(data: memoryview, start: int, size: int) -> memoryview:
    if size < 0 or start + size > len(data):
        raise MalformedRequest(f"{size} bytes at {start} of a frame of {len(data)}")
    return data[start : start + size]


def _text(data: memoryview, start: int, size: int) -> str:
    if not 0 <= size <= MAX_TEXT_BYTES or start + size > len(data):
        raise MalformedRequest(f"a text of {size} bytes at {start} of a frame of {len(data)}")
    return str(data[start : start + size], "utf-8")


def _decode_legacy(data: memoryview, start: int) -> ProduceRequest:
    size = _INT16.unpack_from(data, start)[0]
    start += 2
    transactional_id = None
    if size >= 0:
        transactional_id = _text(data, start, size)
        start += size
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(data, start)
    start += _ACKS_TIMEOUT.size
    topics = []
    limit = ElementLimit(len(data))
    topic_count = limit.take(_INT32.unpack_from(data, start)[0], _TOPIC_MEMORY)
    start += 4
    for _ in range(topic_count):
        size = _INT16.unpack_from(data, start)[0]
        name = _text(data, start + 2, size)
        start += 2 + size
        partitions: list[tuple[int, memoryview | None]] = []
        partition_count = limit.take(_INT32.unpack_from(data, start)[0], _PARTITION_MEMORY)
        start += 4
        for _ in range(partition_count):
            index, size = _INDEX_SIZE.unpack_from(data, start)
            start += _INDEX_SIZE.size
            if size < 0:
                partitions.append((index, None))
                continue
            partitions.append((index, _take(data, start, size)))
            start += size
        topics.append(TopicData(name, None, partitions))
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def _decode_flexible(data: memoryview, start: int, version: int) -> ProduceRequest:
    transactional_id = None
    if data[start]:
        length, start = read_uvarint(data, start)
        transactional_id = _text(data, start, length - 1)
        start += length - 1
    else:
        start += 1
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(data, start)
    start += _ACKS_TIMEOUT.size
    topics = []
    limit = ElementLimit(len(data))
    topic_count, start = read_uvarint(data, start)
    for _ in range(limit.take(topic_count - 1, _TOPIC_MEMORY)):
        name, topic_id = "", None
        if version >= FIRST_TOPIC_ID:
            topic_id = UUID(bytes=bytes(_take(data, start, 16)))
            start += 16
        else:
            length, start = read_uvarint(data, start)
            name = _text(data, start, length - 1)
            start += length - 1
        partitions, start = _decode_partitions(data, start, limit)
        topics.append(TopicData(name, topic_id, partitions))
        start = skip_tagged_fields(data, start) if data[start] else start + 1
    if data[start]:  # one zero byte, where there are no tagged fields
        skip_tagged_fields(data, start)
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def _decode_partitions(
    data: memoryview, start: int, limit: ElementLimit
) -> tuple[list[tuple[int, memoryview | None]], int]:
    partitions: list[tuple[int, memoryview | None]] = []
    count, start = read_uvarint(data, start)
    for _ in range(limit.take(count - 1, _PARTITION_MEMORY)):
        index = _INT32.unpack_from(data, start)[0]
        length, start = read_uvarint(data, start + 4)
        if length == 0:
            partitions.append((index, None))
        else:
            partitions.append((index, _take(data, start, length - 1)))
            start += length - 1
        start = skip_tagged_fields(data, start) if data[start] else start + 1
    return partitions, start
