"""Byte stream -> frames: a 4-byte big-endian size, then that many bytes (the Kafka request frame).

The caller receives straight into the buffer that `get_buffer` lends, so a large Produce request is
never copied: once its size is known, the rest of it arrives in the frame's own bytearray. Small
frames arrive many at a time in a scratch buffer and are copied out.

Limits: a frame larger than `max_frame_bytes`, or of negative size, is refused from its four size
bytes alone. A large frame (LARGE_FRAME_BYTES) is only `announced`; nothing is allocated for it
until the caller, who knows how much memory is free, says `admit`.
"""

import struct
from typing import Final

from protocol.errors import MalformedRequest

LARGE_FRAME_BYTES: Final = 64 * 1024
SIZE: Final = struct.Struct(">i")


class FrameBuffer:
    """Cuts what one peer sends into frames; holds at most one frame that is not complete.

    The scratch buffer may be shared by all connections of an event loop: between `get_buffer` and
    `received` nothing else runs, and what is left in it after that moves to memory of our own.

    Attributes:
        announced: bytes of a large frame that waits for `admit`; 0 when none does. Until then
            `get_buffer` must not be called: the peer's socket is not read.
    """

    __slots__ = ("_filled", "_frame", "_head", "_max_frame_bytes", "_scratch", "announced")

    def __init__(self, scratch: bytearray, *, max_frame_bytes: int) -> None:
        self._scratch = scratch
        self._max_frame_bytes = max_frame_bytes
        self._head = b""  # begins a frame whose size, or whose admission, is not known yet
        self._frame: bytearray | None = None
        self._filled = 0  # bytes of _frame received
        self.announced = 0

    @property
    def partial(self) -> bool:
        """Whether a frame has begun and is not complete."""
        return bool(self._head) or self._frame is not None

    @property
    def received_bytes(self) -> int:
        """Bytes of the unfinished frame that are here."""
        return self._filled if self._frame is not None else len(self._head)

    def get_buffer(self) -> memoryview:
        """Return where the next bytes shall be received; never empty."""
        if self._frame is not None:
            return memoryview(self._frame)[self._filled :]
        head = len(self._head)
        self._scratch[:head] = self._head
        return memoryview(self._scratch)[head:]

    def received(self, count: int) -> list[bytearray]:
        """Take note of `count` bytes written to the last `get_buffer`; return the complete frames.

        Raises:
            MalformedRequest: a frame's size is negative or above the limit; the stream has no
                meaning after that.
        """
        if self._frame is None:
            return self._cut_scratch(len(self._head) + count)
        self._filled += count
        if self._filled < len(self._frame):
            return []
        frame, self._frame = self._frame, None
        return [frame]

    def admit(self) -> None:
        """Allocate the announced frame and go on receiving into it."""
        self._begin(self.announced, self._head[SIZE.size :])
        self.announced, self._head = 0, b""

    def _cut_scratch(self, end: int) -> list[bytearray]:
        frames = []
        scratch, start, size = self._scratch, 0, 0
        self._head = b""
        while end - start >= SIZE.size:
            size = SIZE.unpack_from(scratch, start)[0]
            if not 0 <= size <= self._max_frame_bytes:
                raise MalformedRequest(f"frame of {size} bytes; at most {self._max_frame_bytes}")
            if end - start - SIZE.size < size:
                break
            start += SIZE.size
            frames.append(scratch[start : start + size])
            start += size
        if end - start >= SIZE.size and size <= LARGE_FRAME_BYTES:
            self._begin(size, scratch[start + SIZE.size : end])
        else:
            self._head = bytes(scratch[start:end])
            self.announced = size if end - start >= SIZE.size else 0
        return frames

    def _begin(self, size: int, received: bytes | bytearray) -> None:
        self._frame, self._filled = bytearray(size), len(received)
        self._frame[: self._filled] = received
