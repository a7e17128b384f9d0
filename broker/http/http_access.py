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

from broker.http.http_problems import LOOPBACK_NAME

OPEN_PATHS: Final = ("/health/live", "/health/ready")

_SCHEME: Final = "bearer "

log = structlog.get_logger()


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
    if name.lower() == LOOPBACK_NAME:
        return True
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
