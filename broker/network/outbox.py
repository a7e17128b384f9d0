"""Answers of one connection on their way into its socket, a piece at a time.

A Fetch answer may have 50 MiB. Given to the socket at once it would keep the event loop from all
others while it is copied, and all of it again for each peer that does not read. What waits here is
memory that nobody else counts: records of the tail stay for as long, even if the tail has forgotten
them since. So the more waits for all peers together, the less anybody is given at a time.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

Buffer = bytes | memoryview

PIECE_BYTES: Final = 512 * 1024
"""What a socket is given, which copies it at once: a tenth of a millisecond. Half of it costs a
tenth more for each byte."""

BACKLOG_BYTES: Final = 64 * 1024 * 1024


class Backlog:
    """Attributes: bytes: of answers of a broker that wait for their peers, or for others."""

    def __init__(self) -> None:
        self.bytes = 0

    def room(self) -> int:
        """Return how large an answer may be: what there is room for, and a piece in any case."""
        return max(BACKLOG_BYTES - self.bytes, PIECE_BYTES)


class Outbox:
    """Hands on pieces for as long as the socket has room.

    Args:
        write: takes the buffers of a piece; may block the outbox.
        piece_bytes: most bytes of a piece.
        backlog: where what waits is counted.

    Attributes:
        is_blocked: the socket has no room; to be set by whoever is told so.
    """

    def __init__(
        self, write: Callable[[list[Buffer]], None], *, piece_bytes: int, backlog: Backlog
    ) -> None:
        self._write = write
        self._piece_bytes = piece_bytes
        self._backlog = backlog
        self._counted = 0  # bytes
        self._waiting: deque[Buffer] = deque()
        self.is_blocked = False

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, buffers: Sequence[Buffer]) -> None:
        """Send the buffers after those before, now or when there is room."""
        left = buffers if self.is_blocked else self._waiting  # of which there is none, then
        self._waiting.extend(buffers)
        self.push()
        if self._waiting:
            self._count(sum(map(len, left)))

    def push(self) -> None:
        """Send what there is room for."""
        while self._waiting and not self.is_blocked:
            piece = self._next_piece()
            if self._counted:
                self._count(-sum(map(len, piece)))
            self._write(piece)

    def clear(self) -> None:
        """Forget what was not sent."""
        self._waiting.clear()
        self._count(-self._counted)

    def close(self) -> None:
        """Write nothing ever, and let go of who would: the peer is gone."""
        self._write = _drop
        self.clear()

    def _count(self, size: int) -> None:
        self._counted += size
        self._backlog.bytes += size

    def _next_piece(self) -> list[Buffer]:
        waiting, piece, room = self._waiting, [], self._piece_bytes
        while waiting and room > 0:
            buffer = waiting.popleft()
            if len(buffer) > room:
                view = memoryview(buffer)
                waiting.appendleft(view[room:])
                buffer = view[:room]
            piece.append(buffer)
            room -= len(buffer)
        return piece


def _drop(_: list[Buffer]) -> None:
    """Write to nobody."""
