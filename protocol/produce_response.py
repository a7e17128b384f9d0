"""Produce responses v3-13 by hand. Tests hold this against the generic codec."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from protocol.codec import write_uvarint
from protocol.leader_hints import NO_TAGS, CurrentLeader, leader_tags, node_tags
from protocol.metadata_response import BrokerAnswer
from protocol.produce import FIRST_FLEXIBLE, TopicData

FIRST_HINTED: Final = 10
NO_TIMESTAMP: Final = -1

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_RESULT_V3: Final = struct.Struct(">ihqq")  # index, error, base_offset, log_append_time
_RESULT_V5: Final = struct.Struct(">ihqqq")  # + log_start_offset
_CURRENT_LEADER: Final = 0  # its tag


@dataclass(slots=True)
class PartitionResult:
    """One partition's part of the response.

    Attributes:
        log_append_time_ms: NO_TIMESTAMP where the producer's timestamps were kept (KIP-32).
        record_errors: places in the batch of the records at fault (KIP-467); `message` tells why.
        leader: who leads the partition, if this broker does not (KIP-951).
    """

    index: int
    error_code: int = 0
    base_offset: int = -1
    log_append_time_ms: int = NO_TIMESTAMP
    log_start_offset: int = -1
    message: str | None = None
    record_errors: Sequence[int] = ()
    leader: CurrentLeader | None = None


def encode_produce(
    correlation_id: int,
    version: int,
    topics: list[tuple[TopicData, list[PartitionResult]]],
    nodes: Sequence[BrokerAnswer] = (),
) -> bytes | list[bytes | memoryview]:
    """Return the whole response frame; topics are named as the request named them.

    Args:
        correlation_id: of the request.
        version: of the request.
        topics: what each partition is told.
        nodes: the leaders that are named. They come behind the throttle time, and so in a buffer of
            their own: that of the throttle time is at the end of the first one then.
    """
    flexible = version >= FIRST_FLEXIBLE
    out = bytearray(struct.pack(">ii", 0, correlation_id))
    if flexible:
        out += b"\x00"  # no tagged fields in the response header
    out += write_uvarint(len(topics) + 1) if flexible else _INT32.pack(len(topics))
    for topic, results in topics:
        if topic.topic_id is not None:
            out += topic.topic_id.bytes
        else:
            _append_string(out, topic.name, flexible=flexible)
        out += write_uvarint(len(results) + 1) if flexible else _INT32.pack(len(results))
        for result in results:
            _append_result(out, result, version)
        if flexible:
            out += b"\x00"
    out += _INT32.pack(0)  # throttle_time_ms
    if nodes and version >= FIRST_HINTED:
        tags = node_tags(nodes)
        _INT32.pack_into(out, 0, len(out) + len(tags) - 4)
        return [bytes(out), tags]
    if flexible:
        out += NO_TAGS
    _INT32.pack_into(out, 0, len(out) - 4)
    return bytes(out)


def _append_result(out: bytearray, result: PartitionResult, version: int) -> None:
    fields = (result.index, result.error_code, result.base_offset, result.log_append_time_ms)
    if version < 5:
        out += _RESULT_V3.pack(*fields)
        return
    out += _RESULT_V5.pack(*fields, result.log_start_offset)
    if version < 8:
        return
    flexible = version >= FIRST_FLEXIBLE
    if result.record_errors:
        _append_record_errors(out, result, flexible=flexible)
    else:
        out += b"\x01" if flexible else _INT32.pack(0)
    if result.message is None:
        out += b"\x00" if flexible else _INT16.pack(-1)
    else:
        _append_string(out, result.message, flexible=flexible)
    if result.leader is not None and version >= FIRST_HINTED:
        out += leader_tags(result.leader, _CURRENT_LEADER)
    elif flexible:
        out += NO_TAGS


def _append_record_errors(out: bytearray, result: PartitionResult, *, flexible: bool) -> None:
    """Append the records at fault, each with the message: librdkafka looks nowhere else for it."""
    count = len(result.record_errors)
    out += write_uvarint(count + 1) if flexible else _INT32.pack(count)
    for place in result.record_errors:
        out += _INT32.pack(place)
        _append_string(out, result.message or "", flexible=flexible)
        if flexible:
            out += NO_TAGS


def _append_string(out: bytearray, text: str, *, flexible: bool) -> None:
    encoded = text.encode()
    out += write_uvarint(len(encoded) + 1) if flexible else _INT16.pack(len(encoded))
    out += encoded
