"""One client: frames in, answers out in the order of the requests (the protocol demands it).

Requests of a connection begin in order, one after the other; a handler may hand back an awaitable
for its answer (Produce waits for its commit, with the next Produce already on its way), so several
are in flight together. Answers wait for those before them.

The socket is not read while too many requests wait here, or while the memory for the next large
frame is not free; it is closed on bytes that have no meaning, on an unfinished frame that stalls
and, after connections.max.idle.ms, on silence. A peer that does not read its answers is not given
more of them: nothing more is begun while its send buffer is full.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol, cast

import structlog

from broker.memory import HeldMemory, MemoryBudget
from broker.metrics import BrokerMetrics
from broker.ordered_answers import OrderedAnswers, Reply
from protocol.errors import MalformedRequest, UnsupportedVersion
from protocol.framing import FrameBuffer

MAX_QUEUED_FRAMES: Final = 16
MAX_IN_FLIGHT: Final = 64
SEND_BUFFER_BYTES: Final = 4 * 1024 * 1024
SLOW_READER_S: Final = 60
SLOW_FRAME_S: Final = 30
SLOW_FRAME_BYTES_PER_S: Final = 1024
SCRATCH: Final = bytearray(256 * 1024)  # one event loop per process: see FrameBuffer

log = structlog.get_logger()


class CloseConnection(Exception):
    """The request deserves no answer but the end of the connection."""


class Dispatcher(Protocol):
    """Turns a frame into its answer, at once or later; raises CloseConnection.

    `give_back` may be called once the frame is decoded and cleared; else its memory is counted
    until the answer is known.
    """

    async def dispatch(
        self, frame: bytearray, connection: "Connection", give_back: Callable[[], None]
    ) -> Reply: ...


class Roll(Protocol):
    """Counts connections."""

    def admit(self, connection: "Connection", ip: str) -> bool: ...

    def forget(self, connection: "Connection", ip: str) -> None: ...


class Connection(asyncio.BufferedProtocol):
    """The protocol object of one accepted socket.

    Attributes:
        peer: address as text, for logs.
        last_read_s: loop time when bytes last came.
        frame_since_s: loop time since when a frame is unfinished; 0 when none is.
    """

    def __init__(
        self,
        *,
        dispatcher: Dispatcher,
        memory: MemoryBudget,
        metrics: BrokerMetrics,
        max_frame_bytes: int,
        roll: Roll,
    ) -> None:
        self._dispatcher = dispatcher
        self._memory = memory
        self._metrics = metrics
        self._roll = roll
        self._frames = FrameBuffer(SCRATCH, max_frame_bytes=max_frame_bytes)
        self._queue: deque[bytearray] = deque()
        self._answers = OrderedAnswers(send=self._send, refuse=self.refuse)
        self._wake = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._reading = True
        self._held_bytes = 0
        self._admitted = False
        self._serving: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._ip = ""
        self.peer = ""
        self.last_read_s = self._loop.time()
        self.frame_since_s = 0.0
        self._blocked_since_s = 0.0

    # --- what the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not subclasses of asyncio.Transport
        self._transport = transport = cast("asyncio.Transport", transport)
        transport.set_write_buffer_limits(high=SEND_BUFFER_BYTES)
        self._ip, port = transport.get_extra_info("peername")[:2]
        self.peer = f"{self._ip}:{port}"
        self._metrics.connections.inc()
        if not self._roll.admit(self, self._ip):
            self.refuse("too many connections")
            return
        self._serving = self._loop.create_task(self._serve())

    def connection_lost(self, exc: Exception | None) -> None:
        self._roll.forget(self, self._ip)
        self._metrics.connections.dec()
        self._memory.withdraw(self._admit)
        self._memory.withdraw(self._read_on)
        self._writable.set()
        if self._serving is not None:
            self._serving.cancel()
        self._memory.give_back(self._held_bytes)  # what is under way gives its own back when done
        self._held_bytes = 0

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self.last_read_s = self._loop.time()
        try:
            frames = self._frames.received(nbytes)
        except MalformedRequest as error:
            self.refuse(str(error))
            return
        if frames:
            self._take(frames)
        if self._frames.announced:
            self._hold(self._frames.announced)
        elif frames or not self._frames.partial or not self.frame_since_s:
            self.frame_since_s = self.last_read_s if self._frames.partial else 0.0
        if len(self._queue) >= MAX_QUEUED_FRAMES:
            self._set_reading(reading=False)
        elif self._memory.exhausted and self._reading and not self._admitted:
            self._set_reading(reading=False)
            self._memory.wait_for_room(self._read_on)

    def pause_writing(self) -> None:
        self._writable.clear()
        self._blocked_since_s = self._loop.time()

    def resume_writing(self) -> None:
        self._writable.set()
        self._blocked_since_s = 0.0

    # --- frames

    def _take(self, frames: list[bytearray]) -> None:
        for frame in frames:
            if self._admitted:  # the first to be complete is the one that was counted before
                self._admitted = False
                continue
            self._memory.take(len(frame))
            self._held_bytes += len(frame)
        self._queue.extend(frames)
        self._wake.set()

    def _hold(self, size: int) -> None:
        """Ask for the memory of a large frame; until it is granted the socket is not read."""
        if self._memory.try_take(size):
            self._admit()
            return
        self._set_reading(reading=False)
        self._memory.wait(size, self._admit)

    def _admit(self) -> None:
        """Receive the announced frame: its memory is counted now."""
        self._held_bytes += self._frames.announced
        self._frames.admit()
        self._admitted = True
        self.frame_since_s = self._loop.time()
        self._read_on()

    def _read_on(self) -> None:
        """Read again unless something else forbids it."""
        if len(self._queue) < MAX_QUEUED_FRAMES and not self._frames.announced:
            self._set_reading(reading=True)

    def _set_reading(self, *, reading: bool) -> None:
        transport = self._transport
        if transport is None or transport.is_closing() or reading == self._reading:
            return
        self._reading = reading
        if reading:
            transport.resume_reading()
        else:
            transport.pause_reading()

    # --- requests

    async def _serve(self) -> None:
        while True:
            while not self._queue:
                self._wake.clear()
                await self._wake.wait()
            await self._writable.wait()
            while len(self._answers) >= MAX_IN_FLIGHT:
                await self._answers.wait_first()
            frame = self._queue.popleft()
            held = HeldMemory(self._memory, len(frame))  # whether or not the peer is gone
            self._held_bytes -= len(frame)
            try:
                reply = await self._dispatcher.dispatch(frame, self, held.give_back)
            except BaseException as error:
                held.give_back()
                if not isinstance(error, CloseConnection | MalformedRequest | UnsupportedVersion):
                    raise
                self.refuse(str(error))
                return
            self._answers.add(reply, held.give_back)
            if len(self._queue) == MAX_QUEUED_FRAMES // 2:
                self._resume_if_memory()

    def _resume_if_memory(self) -> None:
        if self._memory.exhausted and not self._admitted:
            self._memory.wait_for_room(self._read_on)
        else:
            self._read_on()

    def _send(self, buffers: list[bytes | memoryview]) -> None:
        transport = self._transport
        if buffers and transport is not None and not transport.is_closing():
            transport.writelines(buffers)

    # --- endings

    def expired(self, now_s: float, *, max_idle_s: float) -> str:
        """Return why this connection is to be closed now; empty if it may stay."""
        if self._blocked_since_s and now_s - self._blocked_since_s > SLOW_READER_S:
            return f"did not read its answers for {SLOW_READER_S} s"
        if not self._reading:
            return ""
        elapsed_s = now_s - self.frame_since_s
        if self.frame_since_s and elapsed_s > SLOW_FRAME_S:
            if self._frames.received_bytes < elapsed_s * SLOW_FRAME_BYTES_PER_S:
                return f"did not finish a request for {elapsed_s:.0f} s"
        elif now_s - self.last_read_s > max_idle_s and not self._queue and not self._answers:
            return f"idle for {max_idle_s:.0f} s"
        return ""

    def refuse(self, reason: str) -> None:
        """Close without an answer, and say why once."""
        if self._transport is not None and not self._transport.is_closing():
            log.warning("connection refused", peer=self.peer, reason=reason[:256])
            self._metrics.refused_connections.inc()
            self._transport.abort()

    def close(self) -> None:
        """Send what is written, then close."""
        if self._transport is not None:
            self._transport.close()

    async def finish(self) -> None:
        """Read nothing more, answer what is under way, then close (shutdown)."""
        self._set_reading(reading=False)
        if self._serving is not None:
            self._serving.cancel()
        await self._answers.finish()
        self.close()
