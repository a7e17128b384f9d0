"""A broker's HTTP port, for what the Kafka protocol has no request for."""

import os
from http.client import UNAUTHORIZED, HTTPConnection, HTTPException
from typing import Final
from urllib.parse import urlsplit

from streamctl.errors import Failure, UsageError, reason_of

DEFAULT_HTTP: Final = "127.0.0.1:9644"
HTTP_ENVIRONMENT: Final = "STREAMHOUSE_HTTP"
TOKEN_ENVIRONMENT: Final = "STREAMHOUSE_SECRETS__HTTP_TOKEN"  # noqa: S105 (a variable's name)
"""The broker's own variable; there is no flag, because every user of a machine can read flags."""

CONNECT_S: Final = 5.0


class HttpUnreachable(Failure):
    """Nobody answered HTTP at that address."""

    def __init__(self, http: str, reason: str) -> None:
        super().__init__(
            f"no broker answered at http://{http} ({reason})",
            fix="name one: --http HOST:PORT; a broker prints http=… once it serves",
        )


class HttpRefused(Failure):
    """The port asks for a token, and for another one than was given."""

    def __init__(self, http: str) -> None:
        given = "another token" if os.environ.get(TOKEN_ENVIRONMENT) else "a token"
        super().__init__(
            f"the broker at http://{http} asks for {given}",
            fix=f"set {TOKEN_ENVIRONMENT} to the broker's",
        )


def http_address(http: str) -> tuple[str, int]:
    """Return host and port.

    Raises:
        UsageError: `http` is not HOST:PORT.
    """
    try:
        parts = urlsplit(http if "://" in http else f"//{http}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or not port:
        raise UsageError(f"--http {http!r} is not HOST:PORT", fix=f"for example {DEFAULT_HTTP}")
    return host, port


def get_page(http: str, path: str, *, answer_s: float) -> tuple[int, str]:
    """Return status and text of a page.

    Args:
        http: HOST:PORT.
        path: with the query.
        answer_s: how long the answer may take, once there is a connection.

    Raises:
        UsageError: `http` is not HOST:PORT.
        HttpUnreachable: there was no answer.
        HttpRefused: the token is missing or wrong.
    """
    host, port = http_address(http)
    connection = HTTPConnection(host, port, timeout=min(CONNECT_S, answer_s))
    try:
        connection.connect()
        connection.sock.settimeout(answer_s)
        connection.request("GET", path, headers=_authorization())
        response = connection.getresponse()
        if response.status == UNAUTHORIZED:
            raise HttpRefused(f"{host}:{port}")
        return response.status, response.read().decode("utf-8", "replace")
    except (OSError, UnicodeError, HTTPException) as error:
        raise HttpUnreachable(f"{host}:{port}", reason_of(error)) from error
    finally:
        connection.close()


def _authorization() -> dict[str, str]:
    token = os.environ.get(TOKEN_ENVIRONMENT, "")
    return {"Authorization": f"Bearer {token}"} if token else {}
