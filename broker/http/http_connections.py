"""Bounds what connections to the HTTP port may cost, whoever makes them.

aiohttp waits for a request for as long as it takes. Here a connection has a number of seconds until
its first request is there, for each answer to be made, and for it to be read; and there are only so
many connections: one more takes the place of another, so that who opens many keeps no probe out,
whether they ask for something or not. One that brought the token (broker/http/http_access.py) keeps
its place while its answer is made.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, cast

import structlog
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from broker.logs import LibraryHandler

MAX_CONNECTIONS: Final = 64
REQUEST_S: Final = 10.0
"""From the connection to its first request's last header."""
MAKING_S: Final = 180.0
"""Until an answer is there; /usage may have to read a large index."""
READING_S: Final = 30.0
"""From an answer to the next request on the same connection: for reading the one, and idling."""

MAX_HEADERS: Final = 64
MAX_HEADER_BYTES: Final = 8190

log = structlog.get_logger()


class HttpConnections:
    """The open connections of one HTTP port."""

    def __init__(self) -> None:
        self._open: dict[asyncio.BaseTransport, _Connection] = {}  # the oldest first

    def wrap(self, make: Callable[[], asyncio.Protocol]) -> Callable[[], asyncio.Protocol]:
        """Return a factory of protocols that bounds those of `make`."""
        return lambda: _Connection(make(), self._open)

    @contextmanager
    def making(self, transport: asyncio.BaseTransport | None, *, trusted: bool) -> Iterator[None]:
        """Give the answer to a request of a connection its time, then the client to read it.

        Args:
            transport: of the connection.
            trusted: whether its place is its own meanwhile.
        """
        connection = self._open.get(transport) if transport is not None else None
        if connection is None:  # it is gone already
            yield
            return
        connection.make(trusted=trusted)
        try:
            yield
        finally:
            connection.rest()


class _Connection(asyncio.Protocol):
    """Passes everything on, and ends the connection when its time is over."""

    def __init__(
        self, inner: asyncio.Protocol, others: "dict[asyncio.BaseTransport, _Connection]"
    ) -> None:
        self._inner = inner
        self._open = others
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._making = False
        self._address = ""
        self.keeps_its_place = False

    @property
    def crowd(self) -> tuple[str, bool]:
        """Those of one address that ask for something, or for nothing."""
        return self._address, self._making

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        made = cast("asyncio.Transport", transport)
        if len(self._open) >= MAX_CONNECTIONS and not self._displace():
            made.abort()
            return
        self._transport = made
        self._address, *_ = made.get_extra_info("peername") or ("",)  # none: it is gone already
        self._open[made] = self
        self._allow(REQUEST_S)
        self._inner.connection_made(made)

    def _displace(self) -> bool:
        """End the oldest of the largest crowd; tell whether there was one.

        So whoever fills all places gives up one of them for the next, and probes keep theirs, also
        those from the same address, which ask for nothing until their request is there.
        """
        others = [one for one in self._open.values() if not one.keeps_its_place]
        crowds = Counter(one.crowd for one in others)
        oldest = max(others, key=lambda one: crowds[one.crowd], default=None)  # the first of them
        if oldest is not None:
            oldest.end()
        return oldest is not None

    def end(self) -> None:
        assert self._transport is not None
        self._open.pop(self._transport, None)
        self._transport.abort()

    def make(self, *, trusted: bool) -> None:
        self._making, self.keeps_its_place = True, trusted
        self._allow(MAKING_S)

    def rest(self) -> None:
        self._making = self.keeps_its_place = False
        self._allow(READING_S)

    def _allow(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._transport in self._open:
            self._timer = asyncio.get_running_loop().call_later(seconds, self.end)

    def data_received(self, data: bytes) -> None:
        if self._transport is not None:
            self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received() if self._transport is not None else None

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is None:  # it was not let in
            return
        self._open.pop(self._transport, None)
        if self._timer is not None:
            self._timer.cancel()
        self._inner.connection_lost(exc)


class BoundedSite(web.BaseSite):
    """Serves a runner's application on host:port, within bounds."""

    def __init__(
        self, runner: web.BaseRunner, host: str, port: int, connections: HttpConnections
    ) -> None:
        super().__init__(runner)
        self._host = host
        self._port = port
        self._connections = connections

    @property
    def name(self) -> str:
        return f"http://{self._host}:{self._port}"

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: the address is not free.
        """
        await super().start()
        assert self._runner.server is not None
        self._server = await asyncio.get_running_loop().create_server(
            self._connections.wrap(self._runner.server),
            self._host,
            self._port,
            backlog=MAX_CONNECTIONS,
        )


class _HttpHandler(LibraryHandler):
    """Takes what aiohttp logs. Whoever reaches the port can send nonsense: that is no news."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, HttpProcessingError) or record.levelno < logging.WARNING:
            log.debug("bad http request", reason=type(error).__name__)
        else:
            super().emit(record)


def http_logger() -> logging.Logger:
    """Return the logger that an HTTP server's protocol writes to."""
    logger = logging.getLogger("streamhouse.http")
    logger.propagate = False
    logger.setLevel(logging.DEBUG)
    if not logger.handlers:
        logger.addHandler(_HttpHandler())
    return logger
