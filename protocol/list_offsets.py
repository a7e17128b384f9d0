"""ListOffsets responses v1-11 by hand: clients ask for a thousand partitions at a time.

The generic codec needs ten times as long for them, in which the event loop serves nobody else.
Tests hold this against it.
"""

import struct
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from protocol.codec import write_uvarint

FIRST_THROTTLED: Final = 2
FIRST_LEADER_EPOCH: Final = 4
FIRST_FLEXIBLE: Final = 6

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_ANSWER_V1: Final = struct.Struct(">ihqq")  # index, error, timestamp, offset
_ANSWER_V4: Final = struct.Struct(">ihqqi")  # + leader epoch
_ANSWER_V6: Final = struct.Struct(">ihqqix")  # + no tagged fields


class OffsetAnswer(NamedTuple):
    """One partition's part of the response, in the order of the wire."""

    partition: int
    error_code: int
    timestamp_ms: int
    offset: int
    leader_epoch: int


def encode_list_offsets(
    correlation_id: int, version: int, topics: Sequence[tuple[str, Iterable[OffsetAnswer]]]
) -> bytes:
    """Return the whole response frame; the throttle time is 0."""
    flexible = version >= FIRST_FLEXIBLE
    head = b"\0" * (8 + flexible)  # frame size and correlation id, known last; no tagged fields
    frame = bytearray(head)
    if version >= FIRST_THROTTLED:
        frame += _INT32.pack(0)
    frame += _count(len(topics), flexible=flexible)
    for name, answers in topics:
        text = name.encode()
        frame += write_uvarint(len(text) + 1) if flexible else _INT16.pack(len(text))
        frame += text
        packed = _pack(answers, version)
        frame += _count(len(packed), flexible=flexible)
        frame += b"".join(packed)
        if flexible:
            frame += b"\0"
    if flexible:
        frame += b"\0"
    struct.pack_into(">ii", frame, 0, len(frame) - _INT32.size, correlation_id)
    return bytes(frame)


def _pack(answers: Iterable[OffsetAnswer], version: int) -> list[bytes]:
    if version >= FIRST_FLEXIBLE:
        return [_ANSWER_V6.pack(*answer) for answer in answers]
    if version >= FIRST_LEADER_EPOCH:
        return [_ANSWER_V4.pack(*answer) for answer in answers]
    return [_ANSWER_V1.pack(*answer[:4]) for answer in answers]


def _count(count: int, *, flexible: bool) -> bytes:
    return write_uvarint(count + 1) if flexible else _INT32.pack(count)
