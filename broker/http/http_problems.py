"""What is wrong with how the HTTP port is to be served (see http_access.py), if anything is.

Apart from that, because settings are read before any server is imported: a start waits for it.
"""

import re
from ipaddress import ip_address
from typing import Final

from broker.network.addresses import parse_address

TOKEN_CHARACTERS: Final = 32
"""The least: `openssl rand -hex 16` has as many, and 128 bits: out of reach of any guessing."""

VARIABLE: Final = "STREAMHOUSE_SECRETS__HTTP_TOKEN"
LOOPBACK_NAME: Final = "localhost"

_MAKE_ONE: Final = "make one with `openssl rand -hex 32`"
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # RFC 6750, 2.1


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
        return host.lower() == LOOPBACK_NAME
