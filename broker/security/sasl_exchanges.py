"""The conversations of the SASL mechanisms, joined with what knows passwords and tokens."""

import secrets
from collections.abc import Awaitable, Callable

from broker.security.login import Exchange, Identity
from broker.security.sasl_credentials import Credentials
from broker.security.sasl_passwords import Passwords
from protocol.sasl import AuthenticationFailed, FailureReason, check_authorization_id
from protocol.sasl_oauthbearer import CONFIRMATION, REJECTION, read_oauthbearer
from protocol.sasl_plain import read_plain
from protocol.sasl_scram import ScramServer
from protocol.scram import ScramCredential, ScramMechanism

TokenCheck = Callable[[str], Awaitable[Identity]]
"""Returns whose token it is; raises AuthenticationFailed."""


class PlainExchange:
    """PLAIN: one message."""

    def __init__(self, passwords: Passwords, host: str) -> None:
        self._passwords = passwords
        self._host = host

    async def take(self, message: bytes) -> tuple[bytes, Identity | None]:
        """Check the password, and only then whom the client wants to act as."""
        login = read_plain(message)
        if not await self._passwords.check(login.user, login.password, self._host):
            raise AuthenticationFailed(FailureReason.CREDENTIALS, user=login.user)
        check_authorization_id(login.authorization_id, login.user)
        return b"", Identity(user=login.user)


class ScramExchange:
    """SCRAM: two messages."""

    def __init__(self, mechanism: ScramMechanism, credentials: Credentials) -> None:
        self._mechanism = mechanism
        self._credentials = credentials
        self._server = ScramServer(mechanism, nonce=secrets.token_urlsafe(24))
        self._found: ScramCredential | None = None
        self._started = False

    async def take(self, message: bytes) -> tuple[bytes, Identity | None]:
        """Answer the first message, or the last one: by then the credential must still be there."""
        server, credentials = self._server, self._credentials
        if not self._started:
            self._started = True
            user = server.start(message)
            self._found = credentials.find(user, self._mechanism)
            made_up = credentials.make_up(user, self._mechanism)  # always: it takes its time
            return server.challenge(self._found or made_up), None
        answer, found = server.finish(message), self._found
        if found is None or credentials.find(server.user, self._mechanism) != found:
            raise AuthenticationFailed(FailureReason.REVOKED, user=server.user)
        return answer, Identity(user=server.user)


class OAuthBearerExchange:
    """OAUTHBEARER: one message, and one more from a client that has read the rejection."""

    def __init__(self, check: TokenCheck) -> None:
        self._check = check
        self._failure: AuthenticationFailed | None = None

    async def take(self, message: bytes) -> tuple[bytes, Identity | None]:
        """Check the token; what comes after a rejection is not another token (RFC 7628, 3.2.3)."""
        if self._failure is not None:
            reason, user = self._failure.reason, self._failure.user
            if message != CONFIRMATION:
                reason = FailureReason.MALFORMED
            raise AuthenticationFailed(reason, user=user, message=REJECTION.decode())
        login = read_oauthbearer(message)
        try:
            identity = await self._check(login.token)
        except AuthenticationFailed as failure:
            self._failure = failure
            return REJECTION, None
        check_authorization_id(login.authorization_id, identity.user)
        return b"", identity


def exchange_maker(
    credentials: Credentials, passwords: Passwords, check_token: TokenCheck | None
) -> Callable[[str, str], Exchange]:
    """Return what begins the conversation of a mechanism, by its name, with a client of a host."""
    scram = {mechanism.sasl_name: mechanism for mechanism in ScramMechanism}

    def begin(mechanism: str, host: str) -> Exchange:
        if mechanism in scram:
            return ScramExchange(scram[mechanism], credentials)
        if mechanism == "PLAIN":
            return PlainExchange(passwords, host)
        assert check_token is not None, "OAUTHBEARER is enabled only with keys to check tokens with"
        return OAuthBearerExchange(check_token)

    return begin
