"""The HTTP port: /health/live, /health/ready, /metrics, /usage. It binds to loopback by default.

Who may ask is decided by broker/http/http_access.py; what connections may cost, by
broker/http/http_connections.py. What is costly to answer is made once at a time for all who ask.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from itertools import chain
from typing import Final

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from broker.http.exposition import Family, family_pieces, registry_pieces
from broker.http.http_access import HttpAccess
from broker.http.http_connections import (
    MAX_HEADER_BYTES,
    MAX_HEADERS,
    READING_S,
    BoundedSite,
    HttpConnections,
    http_logger,
)
from broker.paced import Paced
from storage.errors import StorageError
from storage.objects.store_health import StoreState

CHECK_S: Final = 2.0
CHECK_REST_S: Final = 0.1
METRICS_REST_S: Final = 2.0
CLOSE_S: Final = 1.0

Check = Callable[[], Awaitable[object]]
"""Raises what is wrong. A StoreState that it returns is shown; UNAVAILABLE is not ready."""

_GOOD_ENOUGH: Final = (StoreState.OK, StoreState.SLOW, StoreState.THROTTLED)
Detail = Callable[[], str]
"""Tells how something is that the broker serves without."""

Source = Callable[[], Awaitable[Iterable[Family]]]
"""Returns metrics that may have very many series, or that have to be asked for."""


class HttpServer:
    """Serves health and metrics.

    Attributes:
        serving: whether this broker takes requests; false before the start is complete and from the
            beginning of a shutdown on.
        details: what /health/ready tells besides; it makes no difference to being ready.
        sources: of what /metrics exports besides the registry.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        checks: dict[str, Check],
        pages: Iterable[web.RouteDef] = (),
        access: HttpAccess | None = None,
    ) -> None:
        self._registry = registry
        self._checks = checks
        self._access = access or HttpAccess()
        self._connections = HttpConnections()
        self._checking = Paced(self._check_all, longest_rest_s=CHECK_REST_S, clock=time.monotonic)
        self._exporting = Paced(self._export, longest_rest_s=METRICS_REST_S, clock=time.monotonic)
        self.details: dict[str, Detail] = {}
        self.sources: list[Source] = []
        self.serving = False
        app = web.Application(middlewares=[self._bound(), self._access.middleware()])
        app.add_routes(
            [
                web.get("/", self._paths),
                web.get("/health/live", self._live),
                web.get("/health/ready", self._ready),
                web.get("/metrics", self._metrics),
                *pages,
            ]
        )
        self._runner = web.AppRunner(
            app,
            access_log=None,
            logger=http_logger(),
            keepalive_timeout=READING_S,
            lingering_time=0,
            max_line_size=MAX_HEADER_BYTES,
            max_field_size=MAX_HEADER_BYTES,
            max_headers=MAX_HEADERS,
            shutdown_timeout=CLOSE_S,
        )

    async def listen(self, host: str, port: int) -> int:
        """Serve on host:port; return the port.

        Raises:
            OSError: the address is not free.
        """
        await self._runner.setup()
        await BoundedSite(self._runner, host, port, self._connections).start()
        bound: int = self._runner.addresses[0][1]
        return bound

    async def close(self) -> None:
        await self._runner.cleanup()

    def _bound(self) -> Middleware:
        @web.middleware
        async def bound(request: web.Request, handler: Handler) -> web.StreamResponse:
            trusted = self._access.trusts(request)
            with self._connections.making(request.transport, trusted=trusted):
                return await handler(request)

        return bound

    async def _paths(self, request: web.Request) -> web.Response:
        resources = request.app.router.resources()
        paths = [one.canonical for one in resources if one.canonical != request.path]
        return web.Response(text=f"StreamHouse: {' '.join(paths)}\n")

    async def _live(self, _: web.Request) -> web.Response:
        return web.json_response({"status": "live"})

    async def _ready(self, request: web.Request) -> web.Response:
        """Ready is: this broker takes requests, and Postgres and the object store answer.

        A store that is slow, or asks for fewer requests, still serves: other brokers would not do
        better. A probe without the token is told nothing but the status.
        """
        states = await self._checking.run()
        ready = all(state in _GOOD_ENOUGH for state in states.values())
        body: dict[str, object] = {"status": "ready" if ready else "not ready"}
        if self._access.trusts(request):
            body["checks"] = states
            body["details"] = {name: tell() for name, tell in self.details.items()}
        return web.json_response(body, status=200 if ready else 503)

    async def _check_all(self) -> dict[str, str]:
        states = {"broker": "ok" if self.serving else "not serving"}
        names = list(self._checks)
        results = await asyncio.gather(*(self._check(name) for name in names))
        return states | dict(zip(names, results, strict=True))

    async def _check(self, name: str) -> str:
        try:
            async with asyncio.timeout(CHECK_S):
                found = await self._checks[name]()
        except TimeoutError:
            return f"no answer in {CHECK_S} s"
        except StorageError as error:
            return str(error) or type(error).__name__
        return found if isinstance(found, StoreState) else StoreState.OK

    async def _metrics(self, request: web.Request) -> web.Response:
        if request.method == hdrs.METH_HEAD:  # a body in pieces would be sent all the same
            return web.Response(headers={"Content-Type": CONTENT_TYPE_LATEST})
        pieces = await self._exporting.run()
        return web.Response(body=_each(pieces), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _export(self) -> list[bytes]:
        """Return the text piece by piece; between two of them clients have their turn."""
        found = await asyncio.gather(*(source() for source in self.sources))
        families = [family for one in found for family in one]
        pieces = []
        for piece in chain(registry_pieces(self._registry), family_pieces(families)):
            pieces.append(piece)
            await asyncio.sleep(0)
        return pieces


async def _each(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
