"""What one peer has sent and nobody has begun: when its socket is read, and what memory that takes.

It is not read while too many requests wait here, while the memory for the next large frame is not
free or none is (memory.py), and while the connection is muted. Memory for a large frame is asked
for only when nothing else stands in the way, so that who is muted or busy keeps none from others.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from broker.network.memory import REQUEST_BYTES, HeldMemory, MemoryBudget
from protocol.framing import FrameBuffer

MAX_QUEUED_FRAMES: Final = 16
SLOW_FRAME_S: Final = 30
SLOW_FRAME_BYTES_PER_S: Final = 1024
HOARDED_FRAME_S: Final = 5
WHOLE_FRAME_S: Final = 60
"""Who has announced a large frame, while others wait for memory, has to send it in that time."""

PRODUCE: Final = b"\0\0"
FETCH: Final = b"\0\1"
"""The keys of these APIs, with which their frames begin."""

SCRATCH: Final = bytearray(256 * 1024)  # one event loop per process: see FrameBuffer


class FrameIntake:
    """The frames of one connection.

    Args:
        set_reading: begins or ends the reading of the socket.

    Attributes:
        buffer: where the socket's bytes go.
        queue: complete frames, the oldest first; `pop` takes them.
        reading: whether the socket is read.
        last_read_s: loop time when bytes last came, or when it was last not the peer's turn.
        frame_since_s: loop time since when a frame is unfinished; 0 when none is.
    """

    __slots__ = (
        "_admitted",
        "_appends",
        "_asked",
        "_counted",
        "_ended",
        "_go_on",
        "_granted_bytes",
        "_held_bytes",
        "_loop",
        "_memory",
        "_most_queued",
        "_paused",
        "_set_reading",
        "_waiting",
        "buffer",
        "frame_since_s",
        "last_read_s",
        "queue",
        "reading",
    )

    def __init__(
        self, memory: MemoryBudget, *, max_frame_bytes: int, set_reading: Callable[[bool], None]
    ) -> None:
        self.buffer = FrameBuffer(SCRATCH, max_frame_bytes=max_frame_bytes)
        self.queue: deque[bytearray] = deque()
        self.reading = True
        self._memory = memory
        self._set_reading = set_reading
        self._most_queued = MAX_QUEUED_FRAMES
        self._held_bytes = 0
        self._admitted = False  # the unfinished frame is counted, as far as it is allocated
        self._counted = self._asked = 0  # bytes of it; how many more were asked for last
        self._appends = False  # has ever sent a Produce
        self._waiting = False  # for memory
        self._paused = False
        self._ended = False
        self._go_on: Callable[[], None] | None = None  # for who waits to begin
        self._granted_bytes = 0  # of the oldest frame, if it is counted as begun ahead
        self._loop = asyncio.get_running_loop()
        self.last_read_s = self._loop.time()
        self.frame_since_s = 0.0

    # --- frames

    def received(self, nbytes: int) -> None:
        """Take note of bytes in the buffer.

        Raises:
            MalformedRequest: they have no meaning.
        """
        self.last_read_s = self._loop.time()
        frames = self.buffer.received(nbytes)
        for frame in frames:
            uncounted = len(frame) - self._counted  # of the first to be complete, most is
            self._memory.take(uncounted)
            self._held_bytes += uncounted
            if self._admitted:
                self._forget_unfinished()
            self._appends = self._appends or frame[:2] == PRODUCE
        self.queue.extend(frames)
        if frames or not self.buffer.partial or not self.frame_since_s:
            self.frame_since_s = self.last_read_s if self.buffer.partial else 0.0
        if self.reading and (len(self.queue) >= self._most_queued or not self._has_memory()):
            self._stop_reading()

    def pop(self) -> tuple[bytearray, HeldMemory]:
        """Take the oldest frame, with the memory that it holds until its request is answered."""
        frame = self.queue.popleft()
        self._held_bytes -= len(frame)
        self._memory.begun_bytes -= self._granted_bytes  # which is counted anew
        self._granted_bytes = 0
        self._memory.take(REQUEST_BYTES)
        return frame, HeldMemory(self._memory, len(frame) + REQUEST_BYTES)

    def holds(self, go_on: Callable[[], None]) -> bool:
        """Hold the oldest frame back, if it is a Produce, until less has begun; then call that."""
        if self._granted_bytes or self.queue[0][:2] != PRODUCE:
            return False
        if self._go_on is None:
            self._go_on = go_on
            self._memory.wait_to_begin(len(self.queue[0]) + REQUEST_BYTES, self._begin)
        return True

    def _begin(self) -> None:
        go_on, self._go_on = self._go_on, None
        self._granted_bytes = len(self.queue[0]) + REQUEST_BYTES
        if go_on is not None:
            go_on()

    def stall_s(self, now_s: float) -> float:
        """Return for how long an unfinished frame has come too slowly; 0 if none does."""
        elapsed_s = now_s - self.frame_since_s if self.frame_since_s else 0.0
        due = 0.0
        if elapsed_s > SLOW_FRAME_S:
            due = elapsed_s * SLOW_FRAME_BYTES_PER_S
        if elapsed_s > HOARDED_FRAME_S and self._admitted and self._memory.contended:
            due = max(due, self.buffer.expected_bytes * elapsed_s / WHOLE_FRAME_S)
        return elapsed_s if self.buffer.received_bytes < due else 0.0

    # --- when the socket is read

    def read_on(self) -> None:
        """Read again, unless something forbids it; what does so will end, or call this again."""
        if self.reading or self._paused or self._waiting:
            return
        if len(self.queue) <= self._most_queued // 2 and self._has_memory():
            self.reading = True
            self.last_read_s = self._loop.time()  # its silence was ours
            self.frame_since_s = self.last_read_s if self.buffer.partial else 0.0
            self._set_reading(True)

    def pause(self) -> None:
        """Read nothing, and wait for no memory, until `resume`; hold what has come, and no more."""
        self._paused = True
        self._stop_reading()
        if self._admitted and not self._ended:
            self._shrink()
        if self._waiting:
            self._waiting = False
            self._memory.withdraw(self._granted, self._freed)

    def resume(self) -> None:
        """Undo `pause`."""
        self._paused = self._ended
        self.read_on()

    def read_ahead(self, most_queued: int = MAX_QUEUED_FRAMES) -> None:
        """Read until so many requests wait to begin."""
        self._most_queued = most_queued

    def finish(self) -> None:
        """Read nothing ever; forget what is not whole, and Fetches: nobody waits for records."""
        self._ended = True
        self.pause()
        self.buffer.discard()  # else its memory lives until the collector finds the connection
        forgotten = self._counted + sum(len(one) for one in self.queue if one[:2] == FETCH)
        self.queue = deque(one for one in self.queue if one[:2] != FETCH)
        self._held_bytes -= forgotten
        self._memory.give_back(forgotten)
        self._forget_unfinished()
        self._set_reading = _leave  # it is read no more, and its owner is let go of

    def end(self) -> None:
        """Do that, and forget what nobody has begun."""
        self.finish()
        if self._go_on is not None:
            self._go_on = None
            self._memory.withdraw(self._begin)
        self.queue.clear()
        self._memory.begun_bytes -= self._granted_bytes
        self._granted_bytes = 0
        self._memory.give_back(self._held_bytes)  # what is under way gives its own back when done
        self._held_bytes = 0

    def _has_memory(self) -> bool:
        """Whether there is memory to go on reading; if not, it is waited for."""
        if self.buffer.announced:
            if self._ask():
                self._admit()
                return True
        elif self._admitted or self._memory.has_room(appends=self._appends):
            return True
        else:
            self._memory.wait_for_room(self._freed, appends=self._appends)
        self._waiting = True
        return False

    def _ask(self) -> bool:
        """Whether memory for the announced frame, or for more of it, is counted at once.

        If not, `_granted` is called when it is.
        """
        self._asked = max(self.buffer.allocated_next - self._counted, 0)
        if self._admitted:
            if self._memory.try_grow(self._asked, self):
                return True
            self._memory.wait_to_grow(self._asked, self, self._granted)
            return False
        if self._memory.try_take(self._asked):
            return True
        self._memory.wait(self._asked, self._granted)
        return False

    def _admit(self) -> None:
        """Receive the announced frame, or more of it: what was asked for is counted."""
        self._held_bytes += self._asked
        self._counted += self._asked
        self.buffer.admit()
        if not self._admitted:
            self._admitted = True
            self.frame_since_s = self._loop.time()

    def _shrink(self) -> None:
        """Give back what the unfinished frame would have grown into: that may be in a long time."""
        spare = self._counted - self.buffer.retract()
        self._counted -= spare
        self._held_bytes -= spare
        self._memory.is_whole(self)
        self._memory.give_back(spare)

    def _forget_unfinished(self) -> None:
        self._memory.is_whole(self)
        self._admitted, self._counted = False, 0

    def _granted(self) -> None:
        self._waiting = False
        self._admit()
        self.read_on()

    def _freed(self) -> None:
        self._waiting = False
        self.read_on()

    def _stop_reading(self) -> None:
        if self.reading:
            self.reading = False
            self._set_reading(False)


def _leave(reading: bool) -> None:
    """Leave the socket alone."""
