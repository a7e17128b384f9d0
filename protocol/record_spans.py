"""Where each record of a payload lies, its key, and whether its value is null: nothing is decoded.

For log compaction, which keeps records as they are or drops them, and for schema validation: both
look at very many. The layout is that of protocol/records.py. What follows the length of the value
is not looked at.
"""

from collections.abc import Iterator

from protocol.batch import MINIMAL_RECORD_BYTES
from protocol.errors import InvalidRecords

RecordSpan = tuple[int, int, int, bytes | None, bool]
"""First byte, byte behind the last one, offset delta, key, and whether the value is null."""

FieldSpan = tuple[int, int, int, int]
"""First byte and length of a record's key, then of its value; the length of null is -1."""

_MORE = 0x80
_NULL = 1  # length -1 in zigzag
_VARINT_BITS = 35
_VARLONG_BITS = 70


def record_spans(payload: bytes, count: int, last_offset_delta: int) -> Iterator[RecordSpan]:
    """Yield the span of each record; the spans lie side by side and cover the payload.

    Args:
        payload: decompressed, all of it.
        count: the batch header's record count; offset deltas may have gaps between them.
        last_offset_delta: the batch header's; no record lies behind it.

    Raises:
        InvalidRecords: when iteration comes to what is wrong.
    """
    size = len(payload)
    _check_count(size, count)
    at, last, most = 0, -1, last_offset_delta << 1
    try:
        for _ in range(count):
            start = at
            length = payload[at]
            at += 1
            if length & _MORE:
                length, at = _rest(payload, at, length)
            end = at + (length >> 1)
            at += 1  # attributes
            while payload[at] & _MORE:  # timestamp delta
                at += 1
            delta = payload[at + 1]
            at += 2
            if delta & _MORE:
                delta, at = _rest(payload, at, delta)
            key_length = payload[at]
            at += 1
            if key_length & _MORE:
                key_length, at = _rest(payload, at, key_length)
            key = None if key_length == _NULL else payload[at : at + (key_length >> 1)]
            at += key_length >> 1
            value_length = payload[at]
            at += 1
            if value_length & _MORE:
                value_length, at = _rest(payload, at, value_length)
            null = value_length == _NULL
            # The lowest bit is the sign. At least the count of headers follows the value.
            if (
                (length | delta) & 1
                or (key_length & 1 and key is not None)
                or (value_length & 1 and not null)
                or at + (value_length >> 1) >= end
                or end > size
                or delta <= last
                or delta > most
            ):
                raise InvalidRecords(f"no record at byte {start}")
            yield start, end, delta >> 1, key, null
            at, last = end, delta
    except IndexError:
        raise InvalidRecords("the last record ends early") from None
    if at != size:
        raise InvalidRecords(f"{size - at} bytes after {count} records")


def field_spans(payload: bytes, count: int) -> Iterator[FieldSpan]:
    """Yield where the key and the value of each record lie.

    Args:
        payload: decompressed, all of it.
        count: the batch header's record count.

    Raises:
        InvalidRecords: when iteration comes to what is wrong.
    """
    size = len(payload)
    _check_count(size, count)
    at = 0
    try:
        for _ in range(count):
            start = at
            length = payload[at]
            at += 1
            if length & _MORE:
                length, at = _rest(payload, at, length)
            end = at + (length >> 1)
            at += 1  # attributes
            while payload[at] & _MORE:  # timestamp delta
                at += 1
            at += 1
            while payload[at] & _MORE:  # offset delta
                at += 1
            at += 1
            key_at, key_length = _nullable(payload, at)
            at = key_at + key_length if key_length > 0 else key_at
            value_at, value_length = _nullable(payload, at)
            at = value_at + value_length if value_length > 0 else value_at
            if length & 1 or at >= end or end > size:  # at least the count of headers is to come
                raise InvalidRecords(f"no record at byte {start}")
            yield key_at, key_length, value_at, value_length
            at = end
    except IndexError:
        raise InvalidRecords("the last record ends early") from None
    if at != size:
        raise InvalidRecords(f"{size - at} bytes after {count} records")


def timestamp_deltas(payload: bytes, count: int) -> Iterator[int]:
    """Yield the timestamp delta of each record, in ms.

    Raises:
        InvalidRecords: when iteration comes to what is wrong.
    """
    size = len(payload)
    _check_count(size, count)
    at = 0
    try:
        for _ in range(count):
            length = payload[at]
            at += 1
            if length & _MORE:
                length, at = _rest(payload, at, length)
            delta = payload[at + 1]
            if delta & _MORE:
                delta, _ = _rest(payload, at + 2, delta, _VARLONG_BITS)
            yield delta >> 1 ^ -(delta & 1)
            at += length >> 1
    except IndexError:
        raise InvalidRecords("the last record ends early") from None


def _check_count(size: int, count: int) -> None:
    if not 0 <= count * MINIMAL_RECORD_BYTES <= size:
        raise InvalidRecords(f"{size} bytes cannot hold {count} records")


def _nullable(payload: bytes, at: int) -> tuple[int, int]:
    """Return where a key or value begins, and its length."""
    length = payload[at]
    at += 1
    if length & _MORE:
        length, at = _rest(payload, at, length)
    if length & 1 and length != _NULL:
        raise InvalidRecords(f"a length before byte {at} is negative")
    return at, length >> 1 ^ -(length & 1)


def _rest(payload: bytes, at: int, first: int, bits: int = _VARINT_BITS) -> tuple[int, int]:
    """Return a varint (zigzag is not undone) whose first byte is `first`, and where it ends."""
    value, shift = first & 0x7F, 7
    while shift < bits:
        byte = payload[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & _MORE:
            return value, at
        shift += 7
    raise InvalidRecords("a varint does not end, or is too large")
