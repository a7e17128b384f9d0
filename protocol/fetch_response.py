"""Fetch responses v4-18 by hand, as lists of buffers: batches go to the socket without a copy.

Tests hold this against the generic codec.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from protocol.codec import write_uvarint
from protocol.fetch import (
    FIRST_FLEXIBLE,
    FIRST_RACK,
    FIRST_SESSION,
    FIRST_TOPIC_ID,
    NO_SESSION,
)
from protocol.leader_hints import NO_TAGS, CurrentLeader, leader_tags, node_tags
from protocol.metadata_response import BrokerAnswer

FIRST_HINTED: Final = 16

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_SESSION: Final = struct.Struct(">hi")  # error of the whole, session id
_ANSWER_V4: Final = struct.Struct(">ihqq")  # index, error, high watermark, last stable offset
_ANSWER_V5: Final = struct.Struct(">ihqqq")  # + log start offset
_ABORTED: Final = struct.Struct(">qq")  # producer id, first offset
_NULL_ARRAY: Final = _INT32.pack(-1)
_CURRENT_LEADER: Final = 1  # its tag


@dataclass(slots=True)
class PartitionAnswer:
    """One partition's part of the response.

    Attributes:
        aborted: (producer id, first offset) of the aborted transactions among the records; None
            where any record is wanted.
        records: whole batches, back to back.
        preferred_read_replica: the node id to fetch from instead of this one; -1 for none.
        leader: who leads the partition, if this broker does not (KIP-951).
    """

    index: int
    error_code: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted: Sequence[tuple[int, int]] | None = None
    records: Sequence[memoryview] = field(default_factory=tuple)
    size: int = 0
    preferred_read_replica: int = -1
    leader: CurrentLeader | None = None


@dataclass(slots=True)
class TopicAnswer:
    """One topic's part of the response."""

    name: str
    topic_id: UUID | None
    partitions: list[PartitionAnswer]


def encode_fetch(
    correlation_id: int,
    version: int,
    topics: Sequence[TopicAnswer],
    *,
    error_code: int = 0,
    session_id: int = NO_SESSION,
    nodes: Sequence[BrokerAnswer] = (),
) -> list[bytes | memoryview]:
    """Return the whole response frame as buffers to be written one after the other.

    Args:
        correlation_id: of the request.
        version: of the request.
        topics: what each partition is told.
        error_code: of the fetch as a whole.
        session_id: of the session that the client may go on with (KIP-227).
        nodes: the leaders that are named.
    """
    flexible = version >= FIRST_FLEXIBLE
    head = bytearray(8)  # frame size and correlation id, known last
    if flexible:
        head += b"\x00"  # no tagged fields in the response header
    head += _INT32.pack(0)  # throttle_time_ms
    if version >= FIRST_SESSION:
        head += _SESSION.pack(error_code, session_id)
    head += write_uvarint(len(topics) + 1) if flexible else _INT32.pack(len(topics))
    buffers: list[bytes | memoryview] = []
    for topic in topics:
        _encode_topic_name(head, topic, version)
        count = len(topic.partitions)
        head += write_uvarint(count + 1) if flexible else _INT32.pack(count)
        for answer in topic.partitions:
            _encode_partition(head, answer, version)
            if answer.size:
                buffers.append(bytes(head))
                buffers.extend(answer.records)
                head = bytearray()
            if answer.leader is not None and version >= FIRST_HINTED:
                head += leader_tags(answer.leader, _CURRENT_LEADER)
            elif flexible:
                head += NO_TAGS
        if flexible:
            head += NO_TAGS
    if flexible:
        head += node_tags(nodes) if nodes and version >= FIRST_HINTED else NO_TAGS
    buffers.append(bytes(head))
    size = sum(map(len, buffers)) - 4
    buffers[0] = struct.pack(">ii", size, correlation_id) + buffers[0][8:]
    return buffers


def _encode_topic_name(head: bytearray, topic: TopicAnswer, version: int) -> None:
    if version >= FIRST_TOPIC_ID:
        assert topic.topic_id is not None  # echoed from the request
        head += topic.topic_id.bytes
        return
    name = topic.name.encode()
    head += write_uvarint(len(name) + 1) if version >= FIRST_FLEXIBLE else _INT16.pack(len(name))
    head += name


def _encode_partition(head: bytearray, answer: PartitionAnswer, version: int) -> None:
    """Append everything up to the records themselves."""
    fields = (answer.index, answer.error_code, answer.high_watermark, answer.last_stable_offset)
    if version >= 5:
        head += _ANSWER_V5.pack(*fields, answer.log_start_offset)
    else:
        head += _ANSWER_V4.pack(*fields)
    flexible = version >= FIRST_FLEXIBLE
    _encode_aborted(head, answer.aborted, flexible=flexible)
    if version >= FIRST_RACK:
        head += _INT32.pack(answer.preferred_read_replica)  # KIP-392
    head += write_uvarint(answer.size + 1) if flexible else _INT32.pack(answer.size)


def _encode_aborted(
    head: bytearray, aborted: Sequence[tuple[int, int]] | None, *, flexible: bool
) -> None:
    if aborted is None:
        head += b"\x00" if flexible else _NULL_ARRAY
        return
    head += write_uvarint(len(aborted) + 1) if flexible else _INT32.pack(len(aborted))
    for producer_id, first_offset in aborted:
        head += _ABORTED.pack(producer_id, first_offset)
        if flexible:
            head += b"\x00"
