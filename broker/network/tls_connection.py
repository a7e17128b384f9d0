"""A connection whose bytes are TLS's; a Connection otherwise.

It is a connection from the moment that the socket is accepted, so every limit holds during its
handshake. A handshake that fails is ended as Apache Kafka does it: the client gets the alert, and
the connection is closed at once. OpenSSL's 75 KiB are not allocated for a peer before its first
record is whole, and one that does not even begin like TLS is closed without an answer: a Kafka
client would take an alert for the size of one (352,518,912 bytes; KIP-498).
"""

import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from broker.network.connection import Connection
from broker.network.deadlines import LOGIN_S
from broker.network.outbox import Buffer
from broker.network.reception import Reception, ServerLimits
from broker.network.refused_connections import Refused
from broker.network.tls_stream import TlsStream, is_first_record, is_handshake
from broker.security.principal_mapping import NoRuleApplies
from broker.security.tls_failures import HandshakeFailure, describe, failure_of
from protocol.certificate import expires_at, subject_name
from protocol.errors import MalformedRequest

READ_BYTES: Final = 64 * 1024
PIECE_BYTES: Final = 64 * 1024
RECEIVED: Final = memoryview(bytearray(READ_BYTES))  # one event loop per process


class TlsConnection(Connection):
    """The protocol object of one accepted socket of a listener with TLS.

    Args:
        context: returns the keys and certificates in force.
        name_of: the user's name for a certificate's subject; raises NoRuleApplies.
    """

    piece_bytes = PIECE_BYTES

    def __init__(
        self,
        reception: Reception,
        limits: ServerLimits,
        *,
        context: Callable[[], ssl.SSLContext],
        name_of: Callable[[str], str],
    ) -> None:
        super().__init__(reception, limits)
        self._context = context
        self._name_of = name_of
        self._tls: TlsStream | None = None
        self._hello = b""
        self._secured = False
        self._shows_alert = False
        self.trusted = False

    # --- what the transport calls

    def connection_lost(self, exc: Exception | None) -> None:
        if self._ip and not self._secured and not self._is_refused:
            self._count(HandshakeFailure.DISCONNECTED)
        super().connection_lost(exc)

    def get_buffer(self, sizehint: int) -> memoryview:
        return RECEIVED

    def buffer_updated(self, nbytes: int) -> None:
        self._acknowledge()
        data = RECEIVED[:nbytes]
        if self._tls is None:
            self._hello += data
            if not is_handshake(self._hello):
                self._fail(
                    HandshakeFailure.NOT_TLS,
                    "it does not speak TLS, which this listener needs; compare its"
                    " security.protocol with --listen",
                    Refused.PLAINTEXT_ON_TLS,
                )
                return
            if not is_first_record(self._hello):
                return
            self._tls, data = TlsStream(self._context()), memoryview(self._hello)
            self._hello = b""
        self._tls.feed(data)
        self._go_on_reading()

    # --- reading

    def _go_on_reading(self) -> None:
        tls, transport = self._tls, self._transport
        if tls is None or transport is None or transport.is_closing():
            return
        try:
            if self._secured or self._shake_hands(tls):
                self._read(tls)
        except ssl.SSLError as error:
            self._shows_alert = True
            self.refuse(f"broke TLS: {describe(error)}")
            return
        except MalformedRequest as error:
            self.refuse(str(error))
            return
        self._flush(tls)
        if tls.ended:
            self.close()

    def _read(self, tls: TlsStream) -> None:
        intake, transport = self._intake, self._transport
        while intake.reading and transport is not None and not transport.is_closing():
            count = tls.read_into(intake.buffer.get_buffer())
            if not count:
                return
            self._received(count)

    def _set_reading(self, reading: bool) -> None:
        if reading and self._tls is not None:
            # Who reads on may be in the middle of something; and what is in memory already comes
            # before what the socket tells, which may be the end of it all.
            self._loop.call_soon(self._read_on)
        else:
            super()._set_reading(reading)

    def _read_on(self) -> None:
        self._go_on_reading()
        if self._intake.reading:
            super()._set_reading(True)

    # --- the handshake

    def _shake_hands(self, tls: TlsStream) -> bool:
        try:
            if not tls.shake_hands():
                return False
        except ssl.SSLError as error:
            self._shows_alert = True
            self._fail(failure_of(error), describe(error))
            return False
        except MalformedRequest as error:
            self._fail(HandshakeFailure.PROTOCOL, str(error))
            return False
        return self._identify(tls)

    def _identify(self, tls: TlsStream) -> bool:
        """Take the user's name from the certificate, if the client has shown one."""
        certificate = tls.peer_certificate()
        try:
            if certificate is not None:
                if expires_at(certificate) < datetime.now(UTC):  # who resumes is not verified
                    self._fail(HandshakeFailure.EXPIRED, "its certificate has expired")
                    return False
                self.session.principal = self._name_of(subject_name(certificate))
        except NoRuleApplies as error:
            self._fail(HandshakeFailure.UNTRUSTED, str(error), Refused.NO_PRINCIPAL)
            return False
        except ValueError as error:
            self._fail(HandshakeFailure.UNTRUSTED, f"its certificate cannot be read: {error}")
            return False
        self._secured = True
        if self.session.authenticated:
            self.trust()
        return True

    def _fail(
        self, failure: HandshakeFailure, reason: str, kind: Refused = Refused.HANDSHAKE
    ) -> None:
        self._count(failure)
        self._stop()
        self.refuse(f"TLS handshake failed: {reason}", kind)

    def _count(self, failure: HandshakeFailure) -> None:
        self._reception.metrics.failed_handshakes.labels(failure).inc()

    def expired(self, now_s: float, *, max_idle_s: float) -> tuple[Refused, str] | None:
        missed = super().expired(now_s, max_idle_s=max_idle_s)
        if missed is None or missed[0] is not Refused.UNAUTHENTICATED or self._secured:
            return missed
        self._count(HandshakeFailure.TIMED_OUT)
        return Refused.HANDSHAKE, f"TLS handshake not done within {LOGIN_S} s"

    # --- writing

    def _write(self, piece: list[Buffer]) -> None:
        tls, transport = self._tls, self._transport
        if tls is None or transport is None or transport.is_closing():
            return
        try:
            tls.encrypt(piece[0] if len(piece) == 1 else b"".join(piece))
        except ssl.SSLError as error:
            self.refuse(f"broke TLS: {describe(error)}")
            return
        self._flush(tls)

    def _flush(self, tls: TlsStream) -> None:
        transport, data = self._transport, tls.take_outgoing()
        if data and transport is not None and not transport.is_closing():
            transport.write(data)

    # --- endings

    def close(self) -> None:
        """Send what is written, and that it is all, then close."""
        if not self._outbox and self._tls is not None and self._secured:
            self._tls.end()
            self._flush(self._tls)
        super().close()

    def _drop(self) -> None:
        if self._shows_alert and self._tls is not None:
            self._shows_alert = False  # a peer that does not take it is dropped the hard way
            self._flush(self._tls)
            super().close()
        else:
            super()._drop()
