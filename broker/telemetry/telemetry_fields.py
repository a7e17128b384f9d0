"""Protobuf before it is parsed: how much of it there is.

The parser makes an object of every two bytes `0A 00`, half a million of a megabyte, without once
letting go of the interpreter. So what is too much is cut off before.
"""

from protocol.errors import InvalidRecords

_MORE = 0x80
_MOST_BITS = 63


def first_fields(message: bytes, count: int) -> bytes:
    """Return a protobuf message with its first `count` fields only.

    Raises:
        InvalidRecords: it is no message, or has groups, which no client sends.
    """
    at = 0
    try:
        for _ in range(count):
            if at >= len(message):
                break
            tag, at = _varint(message, at)
            match tag & 7:
                case 0:  # varint
                    _, at = _varint(message, at)
                case 1:  # 64 bits
                    at += 8
                case 2:  # its length comes first
                    length, at = _varint(message, at)
                    at += length
                case 5:  # 32 bits
                    at += 4
                case kind:
                    raise InvalidRecords(f"telemetry: a field of wire type {kind}")
    except IndexError:
        raise InvalidRecords("telemetry: the last field ends early") from None
    return message[:at] if at < len(message) else message


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Return a varint, and where it ends."""
    value = shift = 0
    while shift <= _MOST_BITS:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & _MORE:
            return value, at
        shift += 7
    raise InvalidRecords("telemetry: a varint does not end")
