"""One client: frames in, answers out in the order of the requests (the protocol demands it).

What is sent is read as far as there is room for it (frame_intake.py), and its requests begin in
order (request_loop.py). A connection is closed on bytes that have no meaning, on an unfinished
frame that stalls and, after connections.max.idle.ms, on silence. A peer that does not read its
answers is not given more of them: nothing more is begun while its send buffer is full.

A connection of a client over its quota is muted (KIP-219): nothing is begun and nothing is read for
a time, while the answers under way go out.

On a listener with SASL a client is not trusted until it has authenticated: it has LOGIN_S for that,
and may send only small requests, and few ahead of their answers.
"""

import asyncio
from collections.abc import Callable
from typing import Final, cast

from broker.network.client_session import ClientSession
from broker.network.deadlines import Deadlines
from broker.network.frame_intake import FrameIntake
from broker.network.ordered_answers import OrderedAnswers
from broker.network.outbox import PIECE_BYTES, Buffer, Outbox
from broker.network.reception import Reception, ServerLimits
from broker.network.refused_connections import Refused
from broker.network.request_loop import RequestLoop
from broker.network.socket_options import acknowledger, has_left, keep_unsent_short, leave_alone
from broker.quotas.muting import Muting
from protocol.errors import MalformedRequest, TlsHandshake

MAX_EARLY_FRAMES: Final = 16
UNREAD_S: Final = 30
"""A peer that has gone is forgotten if there was no room for what it sent in that time. Who waits
for an answer gives up after that time, comes back, and would leave a connection here each time."""

MOST_UNSENT_BYTES: Final = 64 * 1024 - 1
"""Beyond what the socket has taken. A peer that does not read has little more than that, and the
rest of one piece, waiting in our memory."""


class Connection(asyncio.BufferedProtocol):
    """The protocol object of one accepted socket.

    Attributes:
        piece_bytes: how much the socket is given at a time.
        peer: address and port as text.
        session: what handlers know of the client.
        trusted: whether it has authenticated, or need not.
    """

    piece_bytes = PIECE_BYTES

    def __init__(self, reception: Reception, limits: ServerLimits) -> None:
        self._reception = reception
        self._max_frame_bytes = limits.max_frame_bytes
        self._intake = FrameIntake(
            reception.memory,
            max_frame_bytes=limits.max_frame_bytes,
            set_reading=self._set_reading,
        )
        self._outbox = Outbox(
            self._write, piece_bytes=self.piece_bytes, backlog=reception.memory.backlog
        )
        self._answers = OrderedAnswers(
            send=self._outbox.add, refuse=self.refuse, backlog=reception.memory.backlog
        )
        self._muting = Muting(self._go_on)
        self._requests = RequestLoop(self._intake, self._answers, self._muting, reception)
        self._is_refused = False
        self._serving: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._deadlines = Deadlines(self._loop.time())
        self._transport: asyncio.Transport | None = None
        self._acknowledge: Callable[[], object] = leave_alone
        self._ip = ""
        self.peer = ""
        self.session = ClientSession()
        self.trusted = not reception.protocol.uses_sasl
        if not self.trusted:
            self.session.authenticated = False
            self._intake.buffer.distrust(min(limits.max_early_bytes, limits.max_frame_bytes))

    # --- what the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not subclasses of asyncio.Transport
        self._transport = transport = cast("asyncio.Transport", transport)
        transport.set_write_buffer_limits(high=MOST_UNSENT_BYTES)
        peer = transport.get_extra_info("peername")
        if peer is None:  # it was reset before it was accepted
            transport.abort()
            return
        self._acknowledge = acknowledger(transport)
        keep_unsent_short(transport)
        self._ip, port = peer[:2]
        self.peer = f"{self._ip}:{port}"
        self.session.host = self._ip
        reception = self._reception
        reception.metrics.connections.labels(reception.name).inc()
        one_too_many = reception.roll.admit(self, self._ip)
        if one_too_many is not None:
            self.refuse("too many connections", one_too_many)
            return
        self._serving = self._loop.create_task(self._requests.run(self))
        self._serving.add_done_callback(self._served)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        requests = self._requests
        requests.writable.set()
        self.session.end()
        for part in (self._outbox, self._muting):
            part.close()
        is_looking = requests.handling is not None and requests.changes_nothing(
            trusted=self.trusted
        )
        if self._intake.queue and self.trusted and not self._is_refused and not is_looking:
            self._intake.finish()
            requests.wake()
        else:
            self._stop()
        if self._serving is None:
            self._forget()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._intake.buffer.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self._acknowledge()
        self._received(nbytes)

    def _received(self, nbytes: int) -> None:
        """Take note of bytes in the intake's buffer, as the client meant them."""
        try:
            self._intake.received(nbytes)
        except TlsHandshake as error:
            self.refuse(str(error), Refused.TLS_ON_PLAINTEXT)
            return
        except MalformedRequest as error:
            self.refuse(str(error))
            return
        if self._intake.queue:
            self._requests.wake()
            if not self.trusted and len(self._intake.queue) > MAX_EARLY_FRAMES:
                self.refuse("sent too many requests at once", Refused.UNAUTHENTICATED)

    def eof_received(self) -> None:
        """Close as `close` does, not as the transport would: that has no deadline."""
        self._outbox.clear()  # the transport closes now; what it has not got, it will not take
        self.close()

    def pause_writing(self) -> None:
        self._outbox.is_blocked = True
        self._requests.writable.clear()
        self._deadlines.blocked_since_s = self._loop.time()

    def resume_writing(self) -> None:
        self._outbox.is_blocked = False
        self._outbox.push()
        if self._outbox.is_blocked:
            return
        self._requests.writable.set()
        self._deadlines.blocked_since_s = 0.0
        if self._deadlines.closing_since_s:
            self.close()

    # --- its parts

    def trust(self) -> None:
        """Let the client, who has authenticated, send what it likes."""
        self.trusted = True
        self._intake.buffer.trust(self._max_frame_bytes)

    def _write(self, piece: list[Buffer]) -> None:
        transport = self._transport
        if transport is not None and not transport.is_closing():
            transport.writelines(piece)

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

    def postpone(self, wait_s: float) -> None:
        """Serve it after that time only; what it has to log in begins then (KIP-612)."""
        self._deadlines.login_since_s += wait_s
        self.mute(wait_s)

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
        self._requests.wake()
        self._intake.resume()

    # --- endings

    def expired(self, now_s: float, *, max_idle_s: float) -> tuple[Refused, str] | None:
        """Return why this connection is to be closed now, if it is."""
        overdue = self._deadlines.missed(now_s, trusted=self.trusted)
        if overdue is not None:
            return overdue
        if self._answers or self._outbox:
            self._intake.last_read_s = now_s  # it may think of its answer as long as of any
        is_silent = now_s - self._intake.last_read_s > max_idle_s
        if self._muting.is_on:
            return (Refused.IDLE, f"muted for {max_idle_s:.0f} s") if is_silent else None
        if not self._intake.reading:
            is_left = now_s - self._intake.last_read_s > UNREAD_S and has_left(self._transport)
            return (Refused.GONE, "has gone, unread") if is_left else None
        stall_s = self._intake.stall_s(now_s)
        if stall_s:
            return Refused.STALLED, f"did not finish a request for {stall_s:.0f} s"
        if is_silent and not self._intake.queue:
            return Refused.IDLE, f"idle for {max_idle_s:.0f} s"
        return None

    def refuse(self, reason: str, kind: Refused = Refused.MALFORMED) -> None:
        """Close without an answer, and say why once."""
        transport = self._transport
        if transport is None or (transport.is_closing() and not self._deadlines.closing_since_s):
            return
        self._deadlines.closing_since_s = 0.0
        if self._is_refused:  # and has not taken what it was told
            transport.abort()
            return
        self._is_refused = True
        reception = self._reception
        reception.metrics.refused_connections.labels(kind).inc()
        reception.refusals.write(
            "connection refused",
            kind=kind,
            peer=self.peer,
            listener=reception.name,
            reason=reason[:256],
        )
        self._drop()

    def _drop(self) -> None:
        """Close without sending what is written."""
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """Send what is written, then close."""
        if self._transport is None or self._transport.is_closing():
            return
        if not self._deadlines.closing_since_s:
            self._deadlines.closing_since_s = self._loop.time()
        if not self._outbox:
            self._transport.close()

    async def finish(self) -> None:
        """Read nothing more, answer what is under way, then close (shutdown)."""
        self._stop()
        if self._serving is not None:
            await asyncio.wait([self._serving])
        await self._answers.finish()
        self.close()

    def _stop(self) -> None:
        """Read and begin nothing more."""
        self._requests.stopped = True
        self._muting.end()
        self._intake.end()
        if self._serving is not None and self._requests.changes_nothing(trusted=self.trusted):
            self._serving.cancel()
            self._serving = None  # it refers to this, even when it is done

    def _served(self, _: asyncio.Task[None]) -> None:
        if self._serving is not None:
            self._serving = None
            if self.session.ended:
                self._forget()

    def _forget(self) -> None:
        """Be counted no more: the peer is gone, and nothing more begins."""
        self._intake.end()
        # Without this, it and what it has made would refer to each other. A thousand that come and
        # go would be left to the garbage collector, which then stops the event loop for long.
        self._answers.close()
        if self._ip:
            reception = self._reception
            reception.roll.forget(self, self._ip)
            reception.metrics.connections.labels(reception.name).dec()
