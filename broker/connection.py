"""One client: frames in, answers out in the order of the requests (the protocol demands it).

Requests of a connection begin in order, one after the other; a handler may hand back an awaitable
for its answer (Produce waits for its commit, with the next Produce already on its way), so several
are in flight together. Answers wait for those before them.

What is sent is read as far as there is room for it (frame_intake.py). A connection is closed on
bytes that have no meaning, on an unfinished frame that stalls and, after connections.max.idle.ms,
on silence. A peer that does not read its answers is not given more of them: nothing more is begun
while its send buffer is full.

A connection of a client over its quota is muted (KIP-219): nothing is begun and nothing is read for
a time, while the answers under way go out.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol, cast

import structlog

from broker.client_session import ClientSession
from broker.frame_intake import FrameIntake
from broker.memory import MemoryBudget
from broker.metrics import BrokerMetrics
from broker.muting import Muting
from broker.ordered_answers import OrderedAnswers, Reply
from protocol.errors import MalformedRequest, UnsupportedVersion

MAX_IN_FLIGHT: Final = 64
SEND_BUFFER_BYTES: Final = 4 * 1024 * 1024
SLOW_READER_S: Final = 60

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
        peer: address and port as text.
        session: what handlers know of the client.
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
        self._metrics = metrics
        self._roll = roll
        self._intake = FrameIntake(
            memory, max_frame_bytes=max_frame_bytes, set_reading=self._set_reading
        )
        self._answers = OrderedAnswers(send=self._send, refuse=self.refuse)
        self._muting = Muting(self._go_on)
        self._wake = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._blocked_since_s = 0.0
        self._serving: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._ip = ""
        self.peer = ""
        self.session = ClientSession()

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
        self._writable.set()
        self._stop()
        self.session.end()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._intake.buffer.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            self._intake.received(nbytes)
        except MalformedRequest as error:
            self.refuse(str(error))
            return
        if self._intake.queue:
            self._wake.set()

    def pause_writing(self) -> None:
        self._writable.clear()
        self._blocked_since_s = self._loop.time()

    def resume_writing(self) -> None:
        self._writable.set()
        self._blocked_since_s = 0.0

    # --- requests

    async def _serve(self) -> None:
        intake = self._intake
        while True:
            if not intake.queue or self._muting.is_on:
                self._wake.clear()
                await self._wake.wait()
                continue  # and look again at all of it, for while one waits the others change
            if not self._writable.is_set():
                await self._writable.wait()
                continue
            if len(self._answers) >= MAX_IN_FLIGHT:
                await self._answers.wait_first()
                continue
            frame, held = intake.pop()
            try:
                reply = await self._dispatcher.dispatch(frame, self, held.give_back)
            except BaseException as error:
                held.give_back()  # whether or not the peer is gone
                if isinstance(error, asyncio.CancelledError):
                    raise
                self.refuse(str(error))
                if not isinstance(error, CloseConnection | MalformedRequest | UnsupportedVersion):
                    raise
                return
            self._answers.add(reply, held.give_back)
            if not intake.reading:
                intake.read_on()

    def _send(self, buffers: list[bytes | memoryview]) -> None:
        transport = self._transport
        if buffers and transport is not None and not transport.is_closing():
            transport.writelines(buffers)

    def _set_reading(self, reading: bool) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if reading:
            transport.resume_reading()
        else:
            transport.pause_reading()

    # --- quotas

    def read_one_ahead(self) -> None:
        """Read no further request while one waits to begin: it may wait long, in our memory."""
        self._intake.read_ahead(1)

    def mute(self, wait_s: float) -> None:
        """Begin and read nothing for that long, or for longer if it is muted for longer already."""
        if not self.session.ended:  # else the timer would keep what nobody needs
            self._muting.extend(wait_s)
            self._intake.pause()

    def muted_ms(self) -> int:
        """Return for how much longer it is muted."""
        return self._muting.left_ms()

    def unmute(self) -> None:
        """Go on as if there were no quotas: they have changed, and the next request tells how."""
        self._intake.read_ahead()
        if self._muting.end():
            self._go_on()
        else:
            self._intake.read_on()

    def dismiss(self, after_s: float) -> None:
        """Neither read nor begin anything, and close after that time (KIP-612)."""
        self._stop()
        self._loop.call_later(after_s, self.close)

    def _go_on(self) -> None:
        self._wake.set()
        self._intake.resume()

    # --- endings

    def expired(self, now_s: float, *, max_idle_s: float) -> str:
        """Return why this connection is to be closed now; empty if it may stay."""
        if self._blocked_since_s and now_s - self._blocked_since_s > SLOW_READER_S:
            return f"did not read its answers for {SLOW_READER_S} s"
        is_silent = now_s - self._intake.last_read_s > max_idle_s and not self._answers
        if self._muting.is_on:
            return f"muted for {max_idle_s:.0f} s" if is_silent else ""
        if not self._intake.reading:
            return ""
        stall_s = self._intake.stall_s(now_s)
        if stall_s:
            return f"did not finish a request for {stall_s:.0f} s"
        return f"idle for {max_idle_s:.0f} s" if is_silent and not self._intake.queue else ""

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
        self._stop()
        await self._answers.finish()
        self.close()

    def _stop(self) -> None:
        """Read and begin nothing more."""
        self._muting.end()
        self._intake.end()
        if self._serving is not None:
            self._serving.cancel()
