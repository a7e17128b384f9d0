"""Answers of one connection on their way into its socket, a piece at a time.

A Fetch answer may have 50 MiB. Given to the socket at once it would keep the event loop from all
others while it is copied, and all of it again for each peer that does not read.
"""

from collections import deque
from collections.abc import Callable, Iterable

Buffer = bytes | memoryview


class Outbox:
    """Hands on pieces for as long as the socket has room.

    Args:
        write: takes the buffers of a piece; may block the outbox.
        piece_bytes: most bytes of a piece.

    Attributes:
        is_blocked: the socket has no room; to be set by whoever is told so.
    """

    def __init__(self, write: Callable[[list[Buffer]], None], *, piece_bytes: int) -> None:
        self._write = write
        self._piece_bytes = piece_bytes
        self._waiting: deque[Buffer] = deque()
        self.is_blocked = False

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, buffers: Iterable[Buffer]) -> None:
        """Send the buffers after those before, now or when there is room."""
        self._waiting.extend(buffers)
        self.push()

    def push(self) -> None:
        """Send what there is room for."""
        while self._waiting and not self.is_blocked:
            self._write(self._next_piece())

    def clear(self) -> None:
        """Forget what was not sent."""
        self._waiting.clear()

    def close(self) -> None:
        """Write nothing ever, and let go of who would: the peer is gone."""
        self._write = _drop
        self.clear()

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
