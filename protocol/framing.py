"""Byte stream -> frames: a 4-byte big-endian size, then that many bytes (the Kafka request frame).

The caller receives straight into the buffer that `get_buffer` lends, so a large Produce request is
never copied: once its size is known, the rest of it arrives in the frame's own bytearray. Small
frames arrive many at a time in a scratch buffer and are copied out.

Limits: a frame larger than `max_frame_bytes`, or of negative size, is refused from its four size
bytes alone. A large frame (LARGE_FRAME_BYTES) is only `announced`; nothing is allocated for it
until the caller, who knows how much memory is free, says `admit`. That allocates twice what has
come of it, or as much as a frame had that came whole before; for more it is announced again. So who
announces much, and sends little, costs little. Of a peer that is not trusted yet even a small frame
takes no more memory than twice what has come of it.
"""

import struct
from typing import Final

from protocol.errors import MalformedRequest, TlsHandshake
from protocol.uncleared import uncleared

LARGE_FRAME_BYTES: Final = 64 * 1024
FIRST_BYTES: Final = 1024
LARGE_HEAD_BYTES: Final = 16 * 1024
"""What is received of a frame before its size is known, if the one before it was large: all of that
is copied, and large ones mostly follow each other."""
SIZE: Final = struct.Struct(">i")

_TLS_HANDSHAKE: Final = b"\x16\x03"
_HTTP: Final = (b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"CONN", b"PRI ")


class FrameBuffer:
    """Cuts what one peer sends into frames; holds at most one frame that is not complete.

    The scratch buffer may be shared by all connections of an event loop: between `get_buffer` and
    `received` nothing else runs, and what is left in it after that moves to memory of our own.

    Attributes:
        announced: bytes of a large frame that waits for `admit`, to begin or to go on; 0 when none
            does. Until then `get_buffer` must not be called: the peer's socket is not read.
    """

    __slots__ = (
        "_filled",
        "_frame",
        "_head",
        "_largest",
        "_max_frame_bytes",
        "_scratch",
        "_size",
        "_trusted",
        "_window",
        "announced",
    )

    def __init__(self, scratch: bytearray, *, max_frame_bytes: int) -> None:
        self._scratch = scratch
        self._max_frame_bytes = max_frame_bytes
        self._head = b""  # begins a frame whose size, or whose admission, is not known yet
        self._frame: bytearray | None = None
        self._filled = 0  # bytes of _frame received
        self._size = 0  # that _frame shall have
        self._trusted = True
        self._largest = LARGE_FRAME_BYTES  # that came whole, or need not be announced
        self._window = len(scratch)  # bytes of it that are lent
        self.announced = 0

    def distrust(self, max_frame_bytes: int) -> None:
        """Take frames up to that size only, and memory for them only as their bytes come."""
        self._trusted, self._max_frame_bytes = False, max_frame_bytes
        self._largest = FIRST_BYTES

    def trust(self, max_frame_bytes: int) -> None:
        """Undo `distrust`."""
        self._trusted, self._max_frame_bytes = True, max_frame_bytes
        self._largest = max(self._largest, LARGE_FRAME_BYTES)

    @property
    def partial(self) -> bool:
        """Whether a frame has begun and is not complete."""
        return bool(self._head) or self._frame is not None

    @property
    def expected_bytes(self) -> int:
        """Bytes of the unfinished frame when it is whole; 0 as long as its size is not known."""
        return self._size if self._frame is not None else self.announced

    @property
    def allocated_next(self) -> int:
        """Bytes that the announced frame will have been allocated in all once it is admitted."""
        return min(self.announced, max(2 * self.received_bytes, self._largest))

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
        return memoryview(self._scratch)[head : self._window]

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
        if self._filled < self._size:
            if self._size > LARGE_FRAME_BYTES:
                self.announced = self._size
            else:
                self._allocate(self._frame, max(2 * self._filled, FIRST_BYTES))
            return []
        frame, self._frame = self._frame, None
        self._largest = max(self._largest, self._size)
        if self._size > LARGE_FRAME_BYTES:
            self._window = min(LARGE_HEAD_BYTES, len(self._scratch))
        return [frame]

    def admit(self) -> None:
        """Allocate for the announced frame, and go on receiving into it."""
        size = self.allocated_next
        if self._frame is None:
            self._begin(self.announced, memoryview(self._head)[SIZE.size :], size)
            self._head = b""
        else:
            self._allocate(self._frame, size)
        self.announced = 0

    def retract(self) -> int:
        """Keep no more memory for the unfinished frame than what has come of it takes.

        It is announced again, if that was less than it had; return how many bytes it has now.
        """
        if self._frame is None:
            return self.received_bytes
        if self._filled < len(self._frame):
            self._allocate(memoryview(self._frame)[: self._filled], self._filled)
            self.announced = self._size
        return self._filled

    def discard(self) -> None:
        """Forget the unfinished frame: nothing more is to come of it."""
        self._frame, self._head, self._filled, self.announced = None, b"", 0, 0

    def _cut_scratch(self, end: int) -> list[bytearray]:
        frames = []
        scratch, start, size = self._scratch, 0, 0
        self._head = b""
        while end - start >= SIZE.size:
            size = SIZE.unpack_from(scratch, start)[0]
            if not 0 <= size <= self._max_frame_bytes:
                raise _meaningless(size, self._max_frame_bytes)
            if end - start - SIZE.size < size:
                break
            start += SIZE.size
            frames.append(scratch[start : start + size])
            start += size
            self._window = len(scratch)
        if end - start >= SIZE.size and size <= LARGE_FRAME_BYTES:
            received = memoryview(scratch)[start + SIZE.size : end]
            self._begin(
                size, received, size if self._trusted else max(2 * len(received), FIRST_BYTES)
            )
        else:
            self._head = bytes(memoryview(scratch)[start:end])
            self.announced = size if end - start >= SIZE.size else 0
        return frames

    def _begin(self, size: int, received: bytearray | memoryview, allocated: int) -> None:
        self._size, self._filled = size, len(received)
        self._allocate(received, allocated)

    def _allocate(self, received: bytearray | memoryview, size: int) -> None:
        # A new one each time: the caller may still hold a view of the old one.
        size = min(size, self._size)
        self._frame = uncleared(size) if size >= LARGE_FRAME_BYTES else bytearray(size)
        self._frame[: len(received)] = received


def _meaningless(size: int, most: int) -> MalformedRequest:
    """Return what a frame's size tells that cannot be one: many a client speaks something else."""
    first = size.to_bytes(4, signed=True)
    text = f"frame of {size} bytes; at most {most}"
    if first.startswith(_TLS_HANDSHAKE):
        return TlsHandshake(
            f"{text}: the client speaks TLS, this listener does not;"
            " compare its security.protocol with --listen"
        )
    if first in _HTTP:
        text += ": the client speaks HTTP, this is a listener for Kafka clients"
    return MalformedRequest(text)
