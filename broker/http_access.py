"""Who may ask what of the HTTP port.

It tells names of topics, groups, clients and addresses. So without a token it is bound to loopback
only; with one, all but whether the broker is live and ready is told to its bearers (RFC 6750). No
delay and no lockout answers a wrong token: what keeps it from being guessed is its length alone.
"""

import hmac
import re
from ipaddress import ip_address
from typing import Final

import structlog
from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware

from broker.addresses import parse_address

TOKEN_CHARACTERS: Final = 32
"""The least: `openssl rand -hex 16` has as many, and 128 bits: out of reach of any guessing."""

VARIABLE: Final = "STREAMHOUSE_SECRETS__HTTP_TOKEN"
OPEN_PATHS: Final = ("/health/live", "/health/ready")

_MAKE_ONE: Final = "make one with `openssl rand -hex 32`"
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # RFC 6750, 2.1
_SCHEME: Final = "bearer "
_LOOPBACK_NAME: Final = "localhost"

log = structlog.get_logger()


def http_problems(http: str, token: str) -> list[str]:
    """Return why the HTTP port may not be served like this.

    Args:
        http: HOST:PORT that it is to be bound to.
        token: that its clients need; empty for none.
    """
    if token:
        return _token_problems(token)
    try:
        host = parse_address(http, listener=False).host
    except ValueError:  # said elsewhere
        return []
    if is_loopback(host):
        return []
    reached = f"http: {http} can be reached from other machines"
    return [f"{reached}; set {VARIABLE} ({_MAKE_ONE}), or bind it to 127.0.0.1"]


def _token_problems(token: str) -> list[str]:
    if len(token) < TOKEN_CHARACTERS:
        least = f"secrets.http_token: use {TOKEN_CHARACTERS} characters or more"
        return [f"{least} ({_MAKE_ONE}): nothing slows down who guesses"]
    if not _TOKEN.fullmatch(token):
        return ["secrets.http_token: use letters, digits and - . _ ~ + / only (RFC 6750)"]
    return []


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches `host`; of a name nobody knows where it leads."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == _LOOPBACK_NAME


class HttpAccess:
    """Decides for each request.

    Args:
        token: that a request has to bring; empty if whoever reaches the port may ask.
    """

    def __init__(self, token: str = "") -> None:
        self._token = token.encode()

    def trusts(self, request: web.Request) -> bool:
        """Tell whether the request may see everything."""
        if not self._token:
            return True
        given = request.headers.get(hdrs.AUTHORIZATION, "")
        if given[: len(_SCHEME)].lower() != _SCHEME:
            return False
        token = given[len(_SCHEME) :].strip().encode("utf-8", "surrogateescape")
        return hmac.compare_digest(token, self._token)

    def middleware(self) -> Middleware:
        """Return what stands before every handler, that of unknown paths included."""

        @web.middleware
        async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
            refusal = self._refusal(request)
            if refusal is None:
                return await handler(request)
            log.debug("http request refused", status=refusal.status, client=request.remote)
            refusal.force_close()  # a body that was sent along is not read
            return refusal

        return check

    def _refusal(self, request: web.Request) -> web.Response | None:
        if not self._token and not _names_this_machine(request.headers.get(hdrs.HOST)):
            return web.Response(status=421, text="ask by address or as localhost\n")
        if request.path not in OPEN_PATHS and not self.trusts(request):
            headers = {hdrs.WWW_AUTHENTICATE: 'Bearer realm="streamhouse"'}
            return web.Response(status=401, text="a token is needed\n", headers=headers)
        if request.body_exists:
            return web.Response(status=413, text="no request has a body here\n")
        return None


def _names_this_machine(host: str | None) -> bool:
    """Tell whether a Host header is no name that somebody else's DNS server answers for.

    A web page can have its own name resolve to 127.0.0.1 and then read what is served here (DNS
    rebinding). Its browser sends that name along; addresses and localhost it cannot claim.
    """
    if host is None:  # no browser
        return True
    name = host.rpartition(":")[0] if re.search(r":\d+$", host) else host
    if name.lower() == _LOOPBACK_NAME:
        return True
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
