"""Answers of one connection on their way into its socket, a piece at a time.

A Fetch answer may have 50 MiB. Given to the socket at once it would keep the event loop from all
others while it is copied, and all of it again for each peer that does not read. What waits here is
memory that nobody else counts: records of the tail stay for as long, even if the tail has forgotten
them since. So the more waits for all peers together, the less anybody is given at a time.

Records from the store are parts of what one GET has brought, megabytes that stay for as long, too.
So once much of that waits for peers, what is small beside it is sent out of a copy.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, TypeGuard

Buffer = bytes | memoryview

PIECE_BYTES: Final = 512 * 1024
"""What a socket is given, which copies it at once: a tenth of a millisecond. Half of it costs a
tenth more for each byte."""

BACKLOG_BYTES: Final = 64 * 1024 * 1024

PINNED_BYTES: Final = 32 * 1024 * 1024
"""So much of it may stay before parts are copied, which costs those that read as well."""


class Backlog:
    """What waits for the peers of a broker.

    Attributes:
        bytes: of answers that wait for their peers, or for others, and of reservations.
        pinned_bytes: of memory that stays because small parts of it wait; each counts once.
    """

    def __init__(self) -> None:
        self.bytes = self.pinned_bytes = 0
        self._pins: dict[int, tuple[int, int]] = {}  # how often, and bytes

    def pin(self, number: int, size: int) -> None:
        """Count memory of `size` bytes, which `number` tells from all other."""
        count, size = self._pins.get(number, (0, size))
        self._pins[number] = (count + 1, size)
        if not count:
            self.pinned_bytes += size

    def unpin(self, number: int) -> None:
        """Undo a `pin`."""
        count, size = self._pins.pop(number)
        if count > 1:
            self._pins[number] = (count - 1, size)
        else:
            self.pinned_bytes -= size

    def room(self) -> int:
        """Return how large an answer may be: what there is room for, and a piece in any case."""
        return max(BACKLOG_BYTES - self.bytes, PIECE_BYTES)


class Reservation:
    """Room for an answer that is being made, which counts as one that waits until it is there."""

    def __init__(self, backlog: Backlog) -> None:
        self._backlog = backlog
        self._bytes = 0

    def take(self, size: int) -> bool:
        """Count so much more of the answer, if there is room for it."""
        if not size:
            return True
        others = self._backlog.bytes - self._bytes
        if self._bytes + size > max(BACKLOG_BYTES - others, PIECE_BYTES):
            return False
        self._bytes += size
        self._backlog.bytes += size
        return True

    def release(self) -> None:
        self._backlog.bytes -= self._bytes
        self._bytes = 0


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
        self._pinned: set[int] = set()
        self._waiting: deque[Buffer] = deque()
        self.is_blocked = False

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, buffers: Sequence[Buffer]) -> None:
        """Send the buffers after those before, now or when there is room."""
        if self._backlog.pinned_bytes > PINNED_BYTES:
            buffers = [bytes(one) if _is_small_part(one) else one for one in buffers]
        left = buffers if self.is_blocked else self._waiting  # of which there is none, then
        self._waiting.extend(buffers)
        self.push()
        if self._waiting:
            self._count(sum(map(len, left)))
        if self.is_blocked:  # what the socket was given last waits as well
            self._pin(buffers)

    def push(self) -> None:
        """Send what there is room for."""
        while self._waiting and not self.is_blocked:
            piece = self._next_piece()
            if self._counted:
                self._count(-sum(map(len, piece)))
            self._write(piece)
        if not self.is_blocked:
            self._unpin()

    def clear(self) -> None:
        """Forget what was not sent."""
        self._waiting.clear()
        self._count(-self._counted)
        self._unpin()

    def close(self) -> None:
        """Write nothing ever, and let go of who would: the peer is gone."""
        self._write, self.is_blocked = _drop, False
        self.clear()

    def _count(self, size: int) -> None:
        self._counted += size
        self._backlog.bytes += size

    def _pin(self, buffers: Sequence[Buffer]) -> None:
        whole = {id(one.obj): _whole_size(one) for one in buffers if _is_small_part(one)}
        for number in whole.keys() - self._pinned:
            self._backlog.pin(number, whole[number])
        self._pinned |= whole.keys()

    def _unpin(self) -> None:
        for number in self._pinned:
            self._backlog.unpin(number)
        self._pinned.clear()

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


def _is_small_part(buffer: Buffer) -> TypeGuard[memoryview]:
    """Return whether it holds on to more than twice of what it is, as the tail's do not."""
    return type(buffer) is memoryview and 2 * len(buffer) < _whole_size(buffer)


def _whole_size(view: memoryview) -> int:
    return len(view.obj)  # type: ignore[arg-type] # a bytearray, or bytes


def _drop(_: list[Buffer]) -> None:
    """Write to nobody."""
