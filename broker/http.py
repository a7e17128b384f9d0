"""The HTTP port: /health/live, /health/ready, /metrics, /usage. It binds to loopback by default."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from itertools import chain
from typing import Final

from aiohttp import hdrs, web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from broker.exposition import Family, family_pieces, registry_pieces
from storage.errors import StorageError
from storage.store_health import StoreState

CHECK_S: Final = 2.0

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
    ) -> None:
        self._registry = registry
        self._checks = checks
        self.details: dict[str, Detail] = {}
        self.sources: list[Source] = []
        self.serving = False
        app = web.Application()
        app.add_routes(
            [
                web.get("/health/live", self._live),
                web.get("/health/ready", self._ready),
                web.get("/metrics", self._metrics),
                *pages,
            ]
        )
        self._runner = web.AppRunner(app, access_log=None)

    async def listen(self, host: str, port: int) -> int:
        """Serve on host:port; return the port.

        Raises:
            OSError: the address is not free.
        """
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port).start()
        bound: int = self._runner.addresses[0][1]
        return bound

    async def close(self) -> None:
        await self._runner.cleanup()

    async def _live(self, _: web.Request) -> web.Response:
        return web.json_response({"status": "live"})

    async def _ready(self, _: web.Request) -> web.Response:
        """Ready is: this broker takes requests, and Postgres and the object store answer.

        A store that is slow, or asks for fewer requests, still serves: other brokers would not do
        better.
        """
        states = {"broker": "ok" if self.serving else "not serving"}
        names = list(self._checks)
        results = await asyncio.gather(*(self._check(name) for name in names))
        states.update(zip(names, results, strict=True))
        ready = all(state in _GOOD_ENOUGH for state in states.values())
        body = {
            "status": "ready" if ready else "not ready",
            "checks": states,
            "details": {name: tell() for name, tell in self.details.items()},
        }
        return web.json_response(body, status=200 if ready else 503)

    async def _check(self, name: str) -> str:
        try:
            async with asyncio.timeout(CHECK_S):
                found = await self._checks[name]()
        except TimeoutError:
            return f"no answer in {CHECK_S} s"
        except StorageError as error:
            return str(error) or type(error).__name__
        return found if isinstance(found, StoreState) else StoreState.OK

    async def _metrics(self, request: web.Request) -> web.StreamResponse:
        """Answer piece by piece; between two of them clients have their turn."""
        if request.method == hdrs.METH_HEAD:  # a stream would send its body all the same
            return web.Response(headers={"Content-Type": CONTENT_TYPE_LATEST})
        found = await asyncio.gather(*(source() for source in self.sources))
        families = [family for one in found for family in one]
        response = web.StreamResponse(headers={"Content-Type": CONTENT_TYPE_LATEST})
        await response.prepare(request)
        for piece in chain(registry_pieces(self._registry), family_pieces(families)):
            await response.write(piece)
            await asyncio.sleep(0)
        await response.write_eof()
        return response
