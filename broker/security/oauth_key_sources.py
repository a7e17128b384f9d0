"""Where the keys of tokens are read from: a file, or an HTTPS endpoint.

Both are named by sasl.oauthbearer.jwks.endpoint.url alone. Nothing in a token (jku, x5u) or in any
other request can name another place: a broker that fetches what strangers tell it to is theirs.
"""

import asyncio
import ssl
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import unquote, urlsplit

import aiohttp

from broker.security.file_signature import FileSignature, file_signature

TIMEOUT_S: Final = 5.0
MAX_BYTES: Final = 256 * 1024
_OK: Final = 200


class KeysUnavailable(Exception):
    """There is no answer, or no proper one; the message says why."""


class KeySource(Protocol):
    """Where a JWK set is."""

    async def changed(self) -> bool:
        """Whether it is known to be another one than was read the last time."""

    async def read(self) -> bytes:
        """Return the JWK set.

        Raises:
            KeysUnavailable: it cannot be read.
        """

    async def close(self) -> None: ...


def open_key_source(url: str) -> KeySource:
    """Return the source that a file: or https: URL names."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        return KeyFile(Path(unquote(parts.path)))
    return KeyEndpoint(url)


class KeyFile:
    """A file; who replaces it need not tell the broker."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: FileSignature | None = None

    async def changed(self) -> bool:
        """Whether it was written or replaced since."""
        return await asyncio.to_thread(file_signature, self._path) != self._seen

    async def read(self) -> bytes:
        """Return the file; see KeySource."""
        return await asyncio.to_thread(self._read)

    async def close(self) -> None:
        """Nothing is open."""

    def _read(self) -> bytes:
        # before the read: what changes meanwhile is read once more
        self._seen = file_signature(self._path)
        try:
            with self._path.open("rb") as file:
                content = file.read(MAX_BYTES + 1)
        except OSError as error:
            raise KeysUnavailable(f"{self._path}: {error.strerror}") from error
        return _checked(content)


class KeyEndpoint:
    """An HTTPS endpoint; SSL_CERT_FILE names the authorities that are trusted beside the usual."""

    def __init__(self, url: str) -> None:
        self._url = url
        parts = urlsplit(url)
        self._place = f"{parts.scheme}://{parts.netloc}{parts.path}"  # a query may be secret
        self._session: aiohttp.ClientSession | None = None

    async def changed(self) -> bool:
        """Nobody knows without asking."""
        return False

    async def read(self) -> bytes:
        """Fetch the keys; see KeySource. Redirects are not followed."""
        try:
            async with self._open().get(self._url, allow_redirects=False) as answer:
                if answer.status != _OK:
                    raise KeysUnavailable(f"{self._place} answers {answer.status}")
                content = bytearray()
                async for part in answer.content.iter_any():
                    content += part
                    if len(content) > MAX_BYTES:
                        break
        except TimeoutError:
            raise KeysUnavailable(f"{self._place}: no answer within {TIMEOUT_S:.0f} s") from None
        except aiohttp.ClientError as error:
            tells_url = isinstance(error, aiohttp.ClientResponseError | aiohttp.InvalidURL)
            reason = type(error).__name__ if tells_url else error
            raise KeysUnavailable(f"{self._place}: {reason}") from error
        return _checked(bytes(content))

    async def close(self) -> None:
        """End the connection."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=ssl.create_default_context(), limit=1),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=TIMEOUT_S),
                headers={"Accept": "application/jwk-set+json, application/json"},
            )
        return self._session


def _checked(content: bytes) -> bytes:
    if len(content) > MAX_BYTES:
        raise KeysUnavailable(f"more than {MAX_BYTES} bytes")
    return content
