"""A small OpenID provider on loopback: its keys, and tokens for the grant client_credentials."""

import base64
import binascii
import json
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, unquote_plus

from tests.support.certificates import Certificate
from tests.support.tokens import LIFE_S, Issuer

JWKS_PATH: Final = "/jwks"
TOKEN_PATH: Final = "/token"
_READ_TIMEOUT_S: Final = 10


@dataclass(slots=True, kw_only=True)
class TokenServer:
    """A provider that runs.

    Attributes:
        url: http or https, with localhost and its port.
        clients: the secrets of client_credentials; each client's subject is its own name.
        life_s: how long its tokens are good.
        status: what every request is answered with, if it is not 200.
        requests: how often each path was asked for.
    """

    issuer: Issuer
    clients: Mapping[str, str]
    url: str = ""
    life_s: float = LIFE_S
    status: int = 200
    requests: dict[str, int] = field(default_factory=dict)

    @property
    def jwks_url(self) -> str:
        return self.url + JWKS_PATH

    @property
    def token_url(self) -> str:
        return self.url + TOKEN_PATH

    def answer(self, path: str, authorization: str, form: Mapping[str, str]) -> tuple[int, Any]:
        """Return status and JSON body of the answer to one request."""
        self.requests[path] = self.requests.get(path, 0) + 1
        if self.status != 200:
            return self.status, {"error": "temporarily_unavailable"}
        if path == JWKS_PATH:
            return 200, self.issuer.jwks()
        if path == TOKEN_PATH:
            return self._grant(authorization, form)
        return 404, {"error": "not_found"}

    def _grant(self, authorization: str, form: Mapping[str, str]) -> tuple[int, Any]:
        """Answer RFC 6749, 4.4; the client says who it is in the header or in the form (2.3.1)."""
        if form.get("grant_type") != "client_credentials":
            return 400, {"error": "unsupported_grant_type"}
        client, secret = _basic(authorization) or (
            form.get("client_id", ""),
            form.get("client_secret", ""),
        )
        if not secret or self.clients.get(client) != secret:
            return 401, {"error": "invalid_client"}
        token = self.issuer.token(client, life_s=self.life_s, scope=form.get("scope", "kafka"))
        return 200, {"access_token": token, "token_type": "Bearer", "expires_in": int(self.life_s)}


@contextmanager
def running_token_server(
    issuer: Issuer,
    *,
    clients: Mapping[str, str] | None = None,
    certificate: Certificate | None = None,
    directory: Path | None = None,
) -> Iterator[TokenServer]:
    """Run a provider for the length of a block.

    Args:
        issuer: whose keys it shows and whose tokens it hands out.
        clients: secrets by name of client.
        certificate: for https; without one it speaks http.
        directory: where the certificate's file is put; needed with one.
    """
    provider = TokenServer(issuer=issuer, clients=clients or {})
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(provider))
    server.daemon_threads = True
    scheme = "http"
    if certificate is not None:
        assert directory is not None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate.write_keystore(directory / "token-server.pem"))
        # the handshake is its own thread's work: an accept must not wait for a client
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
        scheme = "https"
    provider.url = f"{scheme}://localhost:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _handler(provider: TokenServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _READ_TIMEOUT_S

        def handle(self) -> None:
            try:
                super().handle()
            except (ssl.SSLError, ConnectionError):  # a client that does not trust us hangs up
                self.close_connection = True

        def do_GET(self) -> None:
            self._reply({})

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", "0"))
            fields = parse_qs(self.rfile.read(length).decode())
            self._reply({name: values[0] for name, values in fields.items()})

        def _reply(self, form: Mapping[str, str]) -> None:
            path = self.path.partition("?")[0]
            status, body = provider.answer(path, self.headers.get("Authorization", ""), form)
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Say nothing: a test's output is for what went wrong."""

    return Handler


def _basic(authorization: str) -> tuple[str, str] | None:
    """Return name and secret of HTTP's Basic authentication, if it is there."""
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, _, secret = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return unquote_plus(name), unquote_plus(secret)
