"""Who is let in on a listener with SASL, and for how long.

    ApiVersions (once, or not at all) -> SaslHandshake -> SaslAuthenticate … -> anything

Until then nothing but these requests is even parsed. Whatever else comes closes the connection
without an answer; a known request at the wrong moment is answered with ILLEGAL_SASL_STATE first, as
Apache Kafka does it. SaslHandshake v0 is followed by messages of the mechanism in frames of their
own, without headers.

A failure is answered after connection.failed.authentication.delay.ms, in which nothing is read: a
client that goes on trying then does so slowly (KIP-306). The answer is the same for an unknown user
as for a wrong password.

With connections.max.reauth.ms, or a token that expires, a session ends (KIP-368). Clients begin
again in time, with SaslHandshake on the same connection; they may change neither user nor
mechanism. After the end any other request closes the connection.
"""

import asyncio
import struct
from collections.abc import Callable
from typing import Any, Final, NoReturn

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.network.client_session import ClientSession
from broker.network.connection import Connection
from broker.network.refused_connections import CloseConnection, Refused
from broker.security.login import Exchange, Identity, Login
from broker.security.sasl_report import SaslReport
from broker.security.sasl_responses import (
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    authenticate_response,
    handshake_response,
    illegal_state,
)
from broker.security.security_config import SecurityConfig
from protocol.codec import (
    API_VERSIONS,
    RequestHeader,
    encode_response,
    read_request_header,
    request_type,
)
from protocol.guard import decode_request
from protocol.sasl import AuthenticationFailed, FailureReason

EARLY: Final = frozenset((API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE))
"""What may be asked before authentication."""

AGAIN_S: Final = 1.0
"""A client may begin to authenticate itself again so often: it costs as much as the first time."""

MAX_LIFETIME_MS: Final = 365 * 24 * 3600 * 1000
"""Of a session, whatever is set and tokens say: not all of 64 bits is a duration of Python's."""

_SIZE: Final = struct.Struct(">i")
_API_KEY: Final = struct.Struct(">h")


class Authentication:
    """Lets clients in; one for all listeners with SASL.

    Args:
        begin: makes the conversation of an enabled mechanism with a client of a host.
        clock: monotonic seconds.
        now_ms: the wall clock.
    """

    def __init__(
        self,
        config: SecurityConfig,
        *,
        begin: Callable[[str, str], Exchange],
        report: SaslReport,
        clock: Callable[[], float],
        now_ms: Callable[[], int],
    ) -> None:
        self._config = config
        self._begin = begin
        self._report = report
        self._clock = clock
        self._now_ms = now_ms
        report.prepare(config.mechanisms)

    # --- while a client is not in

    async def answer(
        self, frame: bytearray, connection: Connection, supported: Callable[[int, int], bool]
    ) -> bytes | None:
        """Answer a client that is not in, or not any more; None for what anybody may ask.

        Raises:
            CloseConnection, MalformedRequest, UnsupportedVersion: it gets no answer.
        """
        session = connection.session
        login = session.login = session.login or Login()
        if login.raw:
            return await self._raw_message(bytes(frame), connection, login)
        if len(frame) >= _API_KEY.size and _API_KEY.unpack_from(frame)[0] not in EARLY:
            self._close(connection, login)
        header = read_request_header(frame, supported)
        if header.api_key == SASL_HANDSHAKE:
            return await self._handshake(header, frame, connection, login)
        if login.exchange is None:
            self._check_greeting(header, connection, login, supported)
            return None
        if header.api_key == SASL_AUTHENTICATE:
            return await self._authenticate(header, frame, connection, login)
        return await self._dismiss(connection, header, illegal_state(header))

    def _check_greeting(
        self,
        header: RequestHeader,
        connection: Connection,
        login: Login,
        supported: Callable[[int, int], bool],
    ) -> None:
        """Let a client ask for ApiVersions, once in a version that it gets an answer in."""
        in_before = connection.session.authenticated
        if in_before or login.greeted or header.api_key != API_VERSIONS:
            self._close(connection, login)
        login.greeted = supported(API_VERSIONS, header.api_version)

    async def _handshake(
        self, header: RequestHeader, frame: bytearray, connection: Connection, login: Login
    ) -> bytes:
        body: Any = decode_request(
            request_type(header.api_key, header.api_version), frame, header.body
        )
        session = connection.session
        if login.exchange is not None:
            return await self._dismiss(connection, header, illegal_state(header))
        if body.mechanism not in self._config.mechanisms:
            self._report.unknown_mechanism(body.mechanism, session.host)
            code = ErrorCode.unsupported_sasl_mechanism
            answer = handshake_response(header.api_version, code, self._config.mechanisms)
            return await self._dismiss(connection, header, answer)
        answer = self._accept_handshake(header.api_version, body.mechanism, session, login)
        return encode_response(header.correlation_id, answer)

    def _accept_handshake(
        self, version: int, mechanism: str, session: ClientSession, login: Login
    ) -> Payload:
        login.begin(mechanism, self._begin(mechanism, session.host), raw=version == 0)
        if session.authenticated:
            session.expires_s = 0.0  # until it is in again, its requests come to `answer`
        return handshake_response(version, ErrorCode.none, self._config.mechanisms)

    async def _authenticate(
        self, header: RequestHeader, frame: bytearray, connection: Connection, login: Login
    ) -> bytes:
        body: Any = decode_request(
            request_type(header.api_key, header.api_version), frame, header.body
        )
        try:
            answer, lifetime_ms = await self._take(body.auth_bytes, connection.session, login)
        except AuthenticationFailed as failure:
            message = (
                failure.message
                or f"Authentication failed: invalid credentials for SASL {login.mechanism}."
            )
            refusal = authenticate_response(
                header.api_version, ErrorCode.sasl_authentication_failed, message
            )
            return await self._dismiss(connection, header, refusal)
        response = authenticate_response(
            *(header.api_version, ErrorCode.none, None, answer), lifetime_ms=lifetime_ms
        )
        return encode_response(header.correlation_id, response)

    async def _raw_message(self, message: bytes, connection: Connection, login: Login) -> bytes:
        try:
            answer, _ = await self._take(message, connection.session, login)
        except AuthenticationFailed:  # there is no place for an error code
            await self._wait(connection)
            raise CloseConnection("authentication failed") from None
        return _SIZE.pack(len(answer)) + answer

    async def _take(
        self, message: bytes, session: ClientSession, login: Login
    ) -> tuple[bytes, int]:
        """Return the answer to a message, and for how long the session then lasts; 0 for ever.

        Raises:
            AuthenticationFailed: it is counted and logged.
        """
        try:
            answer, identity = await login.take(message, self._config.max_receive_bytes)
            if identity is None:
                return answer, 0
            return answer, self._let_in(identity, session, login)
        except AuthenticationFailed as failure:
            self._report.failed(login.mechanism, session.host, failure)
            raise

    def _let_in(self, identity: Identity, session: ClientSession, login: Login) -> int:
        if session.authenticated and identity.user != session.principal:
            text = "Authentication failed: another user than the session began with."
            raise AuthenticationFailed(FailureReason.CHANGED, user=identity.user, message=text)
        limits = [self._config.max_reauth_ms] if self._config.max_reauth_ms else []
        if identity.expires_ms is not None:  # within the clocks' skew it may have expired already
            limits.append(max(identity.expires_ms - self._now_ms(), 1))
        lifetime_ms = min(*limits, MAX_LIFETIME_MS) if limits else 0
        session.expires_s = self._clock() + lifetime_ms / 1000 if limits else float("inf")
        session.principal = identity.user
        session.authenticated = True
        login.end()
        self._report.succeeded(login.mechanism)
        return lifetime_ms

    def _close(self, connection: Connection, login: Login) -> NoReturn:
        if not connection.session.authenticated:
            reason = "a request before authentication"
        elif login.exchange is None:
            self._report.expired()
            reason = "the session has expired"
        else:
            reason = "a request while the client authenticates itself again"
        connection.refuse(reason, Refused.UNAUTHENTICATED)
        raise CloseConnection(reason)

    async def _dismiss(
        self, connection: Connection, header: RequestHeader, response: Payload
    ) -> bytes:
        await self._wait(connection)
        connection.dismiss(0)
        return encode_response(header.correlation_id, response)

    async def _wait(self, connection: Connection) -> None:
        delay_s = self._config.failed_authentication_delay_ms / 1000
        connection.mute(delay_s)
        await asyncio.sleep(delay_s)

    # --- while it is in

    def begin_again(self, version: int, mechanism: str, session: ClientSession) -> Payload:
        """Answer the handshake of a client that is in and wants to stay (KIP-368)."""
        login, now_s = session.login, self._clock()
        assert login is not None, "it is in"
        too_soon = now_s - login.again_s < AGAIN_S
        if too_soon or session.expires_s == float("inf"):
            return handshake_response(version, ErrorCode.illegal_sasl_state, ())
        if mechanism not in self._config.mechanisms:
            code = ErrorCode.unsupported_sasl_mechanism
            return handshake_response(version, code, self._config.mechanisms)
        login.again_s = now_s
        return self._accept_handshake(version, mechanism, session, login)
