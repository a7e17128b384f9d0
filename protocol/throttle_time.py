"""throttle_time_ms of an answer: how long its client is to wait, because it is over a quota."""

import datetime as dt
import struct
from collections.abc import Sequence
from dataclasses import fields
from functools import cache
from typing import Any, Final, cast

from kio.static.primitive import i32Timedelta

from protocol.codec import response_type

_INT32: Final = struct.Struct(">i")
_FRAME_HEAD: Final = 8  # size and correlation id
_PRODUCE: Final = 0


def throttle_time(throttle_ms: int) -> i32Timedelta:
    """Return the value of the field in a typed response."""
    return i32Timedelta.parse(dt.timedelta(milliseconds=throttle_ms))


def put_throttle_time(
    api_key: int, version: int, answer: bytes | Sequence[bytes | memoryview], throttle_ms: int
) -> list[bytes | memoryview]:
    """Return an encoded answer with another throttle time; it is as it was if it has none.

    Args:
        api_key: of an API that answers with bytes of its own; most have the field first.
        version: of the answer.
        answer: a whole frame, as one buffer or several; of Produce, tagged fields that are not
            empty are the second one (KIP-951).
        throttle_ms: at most 2**31 - 1.
    """
    buffers: list[bytes | memoryview] = [answer] if isinstance(answer, bytes) else list(answer)
    place = _place(api_key, version)
    if place is None:
        return buffers
    if api_key == _PRODUCE:
        place = len(buffers[0]) - _INT32.size if len(buffers) > 1 else len(buffers[0]) + place
    patched = bytearray(buffers[0])
    _INT32.pack_into(patched, place, throttle_ms)
    buffers[0] = bytes(patched)
    return buffers


@cache
def _place(api_key: int, version: int) -> int | None:
    """Return where the field is in the frame; None if there is none.

    Of Produce from its end, if its tagged fields are empty.
    """
    kind = response_type(api_key, version)
    names = [field.name for field in fields(cast("Any", kind))]
    if "throttle_time" not in names:
        return None
    tags = 1 if kind.__flexible__ else 0  # an empty section of tagged fields
    if api_key == _PRODUCE:
        return -_INT32.size - tags
    assert names[0] == "throttle_time", f"API key {api_key} answers with a type, not with bytes"
    return _FRAME_HEAD + tags
