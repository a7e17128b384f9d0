"""Memory that GETs read into, again and again.

To take it fresh from the system for each GET would cost more than the reading: each page is cleared
by the kernel when it is touched first, and by Python, and comes with a page fault. So a buffer is
used again as soon as nobody has it any more, and Python itself says when: nothing but the pool
refers to it (a view of any of its bytes does, in a cache or on its way into a socket), and, which
says the same once more, it has no exports. Nobody gives one back, so nobody can do it too early.
"""

import asyncio
import sys
import threading
from typing import Final

from protocol.uncleared import resize
from storage.config import KiB, MiB

LEAST_BYTES: Final = 128 * KiB
"""What is smaller comes from memory that Python's allocators have anyway."""

KEPT_BYTES: Final = 16 * MiB
"""Of idle buffers, while others are taken; none when no more are."""

MAX_BUFFERS: Final = 256
TRIM_S: Final = 1.0
TRIMMED_AT_ONCE: Final = 16  # to give 4 MiB back takes the event loop some 0.3 ms
MOST_WASTE: Final = 3  # of a buffer, one part in so many


def _references(buffers: list[bytearray], at: int) -> int:
    return sys.getrefcount(buffers[at])


_ALONE: Final = _references([bytearray()], 0)
"""What `_references` says of a buffer that nothing but the list refers to."""


class ReadBuffers:
    """A pool of buffers; any thread may take one.

    It refers to those in use, too, and finds out which of them are idle when it is asked for one.

    Args:
        most_idle_bytes: of idle buffers, while buffers are taken again and again.
    """

    def __init__(self, most_idle_bytes: int = KEPT_BYTES) -> None:
        self._most_idle_bytes = most_idle_bytes
        self._is_busy = False
        self._buffers: list[bytearray] = []  # the one taken last at the end
        self._lock = threading.Lock()
        self._trimming: asyncio.TimerHandle | None = None

    def take(self, length: int) -> bytearray:
        """Return a buffer of exactly so many bytes, whatever they are: all are to be overwritten.

        It is the caller's for as long as anything refers to it or to a part of it.
        """
        if length < LEAST_BYTES:
            return bytearray(length)
        with self._lock:
            self._is_busy = True
            buffer = self._reuse(length) or bytearray()
            self._buffers.append(buffer)
            if len(self._buffers) > MAX_BUFFERS:
                del self._buffers[0]  # not used again: it goes with the last who refers to it
        if not buffer:
            resize(buffer, _rounded(length))
        resize(buffer, length)
        return buffer

    def trim_later(self) -> None:
        """Let go of what is idle even if no more is taken; the event loop calls it after a GET."""
        if self._trimming is None and self._buffers:
            self._trimming = asyncio.get_running_loop().call_later(TRIM_S, self._trim)

    def close(self) -> None:
        """Trim no more; called by the event loop."""
        if self._trimming is not None:
            self._trimming.cancel()

    def _trim(self) -> None:
        self._trimming = None
        with self._lock:
            idle = [at for at in range(len(self._buffers)) if self._is_idle(at)]
            idle_bytes = sum([self._buffers[at].__alloc__() for at in idle])
            trimmed = 0
            most_bytes = self._most_idle_bytes if self._is_busy else 0
            self._is_busy = False
            while idle_bytes > most_bytes and trimmed < TRIMMED_AT_ONCE:
                at = idle[trimmed] - trimmed  # the oldest, at its place now
                idle_bytes -= self._buffers[at].__alloc__()
                del self._buffers[at]
                trimmed += 1
        self.trim_later()  # what is in use will be idle, too

    def _reuse(self, length: int) -> bytearray | None:
        """Take one out that is idle and fits; let go of the oldest idle ones if they are many."""
        idle_bytes = 0
        for at in range(len(self._buffers) - 1, -1, -1):
            if not self._is_idle(at):
                continue
            capacity = self._buffers[at].__alloc__()
            if length < capacity <= length + length // MOST_WASTE + LEAST_BYTES:
                return self._buffers.pop(at)
            idle_bytes += capacity
            if idle_bytes > self._most_idle_bytes:
                del self._buffers[at]
        return None

    def _is_idle(self, at: int) -> bool:
        if _references(self._buffers, at) != _ALONE:
            return False
        buffer = self._buffers[at]
        if not buffer:  # whoever took it fresh was refused the memory
            return True
        try:
            buffer.append(buffer.pop())  # no byte may go while there is a view of any
        except BufferError:
            return False
        return True


def _rounded(length: int) -> int:
    """Return a size that serves others of about this length as well."""
    step = 1 << max(length.bit_length() - 3, 0)
    return -(-length // step) * step
