"""Metadata responses v0-13 by hand: of 10,000 partitions, one answer is asked for by every client.

What follows a partition's number is the same for all that lie on the same brokers, so it is encoded
once for each such group. Tests hold this against the generic codec.
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from protocol.codec import write_uvarint

FIRST_FLEXIBLE: Final = 9

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_PARTITION: Final = struct.Struct(">hi")  # error code, number
_NO_TOPIC_ID: Final = bytes(16)


class Placement(NamedTuple):
    """Where a partition is.

    Attributes:
        leader_id: -1 if clients cannot reach the leader.
        in_sync: node ids of replicas, the first ones of all.
        offline: node ids of the others.
    """

    leader_id: int
    leader_epoch: int
    in_sync: tuple[int, ...]
    offline: tuple[int, ...] = ()


class PartitionAnswer(NamedTuple):
    """One partition's part of the response."""

    error_code: int
    partition: int
    placement: Placement


@dataclass(slots=True, kw_only=True)
class TopicAnswer:
    """One topic's part of the response.

    Attributes:
        name: None for a topic that was asked for by an id that nothing has.
        operations: a bit field (KIP-430).
    """

    error_code: int
    name: str | None
    topic_id: UUID | None
    partitions: Sequence[PartitionAnswer]
    operations: int


@dataclass(slots=True, kw_only=True)
class BrokerAnswer:
    """Where clients reach a broker."""

    node_id: int
    host: str
    port: int
    rack: str | None


@dataclass(slots=True, kw_only=True)
class MetadataAnswer:
    """The whole response.

    Attributes:
        operations: of the cluster, a bit field (KIP-430).
        throttle_ms: from v3 on.
    """

    brokers: Sequence[BrokerAnswer]
    cluster_id: str | None
    controller_id: int
    topics: Sequence[TopicAnswer]
    operations: int
    error_code: int = 0
    throttle_ms: int = 0


def encode_metadata(correlation_id: int, version: int, answer: MetadataAnswer) -> bytes:
    """Return the whole response frame."""
    flexible = version >= FIRST_FLEXIBLE
    out = bytearray(struct.pack(">ii", 0, correlation_id))
    if flexible:
        out += b"\x00"  # no tagged fields in the response header
    if version >= 3:
        out += _INT32.pack(answer.throttle_ms)
    out += _count(len(answer.brokers), flexible=flexible)
    for broker in answer.brokers:
        _append_broker(out, broker, version)
    if version >= 2:
        out += _string(answer.cluster_id, flexible=flexible)
    if version >= 1:
        out += _INT32.pack(answer.controller_id)
    out += _count(len(answer.topics), flexible=flexible)
    places: dict[Placement, bytes] = {}
    for topic in answer.topics:
        _append_topic(out, topic, version, places)
    if 8 <= version <= 10:
        out += _INT32.pack(answer.operations)
    if version >= 13:
        out += _INT16.pack(answer.error_code)
    if flexible:
        out += b"\x00"
    _INT32.pack_into(out, 0, len(out) - 4)
    return bytes(out)


def _append_broker(out: bytearray, broker: BrokerAnswer, version: int) -> None:
    flexible = version >= FIRST_FLEXIBLE
    out += _INT32.pack(broker.node_id)
    out += _string(broker.host, flexible=flexible)
    out += _INT32.pack(broker.port)
    if version >= 1:
        out += _string(broker.rack, flexible=flexible)
    if flexible:
        out += b"\x00"


def _append_topic(
    out: bytearray, topic: TopicAnswer, version: int, places: dict[Placement, bytes]
) -> None:
    """Append a topic; `places` has what is encoded already."""
    flexible = version >= FIRST_FLEXIBLE
    out += _INT16.pack(topic.error_code)
    name = topic.name if version >= 12 else topic.name or ""  # null from v12 on
    out += _string(name, flexible=flexible)
    if version >= 10:
        out += _NO_TOPIC_ID if topic.topic_id is None else topic.topic_id.bytes
    if version >= 1:
        out += b"\x00"  # is_internal
    out += _count(len(topic.partitions), flexible=flexible)
    pack = _PARTITION.pack
    for error_code, partition, placement in topic.partitions:
        place = places.get(placement)
        if place is None:
            place = places[placement] = _place(placement, version)
        out += pack(error_code, partition)
        out += place
    if version >= 8:
        out += _INT32.pack(topic.operations)
    if flexible:
        out += b"\x00"


def _place(placement: Placement, version: int) -> bytes:
    """Return what follows a partition's number."""
    flexible = version >= FIRST_FLEXIBLE
    in_sync, offline = placement.in_sync, placement.offline
    replicas = in_sync + offline if version >= 1 else in_sync  # v0 has only what is in `brokers`
    parts = [_INT32.pack(placement.leader_id)]
    if version >= 7:
        parts.append(_INT32.pack(placement.leader_epoch))
    parts += [_node_ids(replicas, flexible=flexible), _node_ids(in_sync, flexible=flexible)]
    if version >= 5:
        parts.append(_node_ids(offline, flexible=flexible))
    if flexible:
        parts.append(b"\x00")
    return b"".join(parts)


def _node_ids(node_ids: Iterable[int], *, flexible: bool) -> bytes:
    packed = [_INT32.pack(node_id) for node_id in node_ids]
    return _count(len(packed), flexible=flexible) + b"".join(packed)


def _count(count: int, *, flexible: bool) -> bytes:
    return write_uvarint(count + 1) if flexible else _INT32.pack(count)


def _string(text: str | None, *, flexible: bool) -> bytes:
    if text is None:
        return b"\x00" if flexible else _INT16.pack(-1)
    encoded = text.encode()
    return (write_uvarint(len(encoded) + 1) if flexible else _INT16.pack(len(encoded))) + encoded
