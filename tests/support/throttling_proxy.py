"""A proxy before an S3 server that asks for fewer requests, or leaves some without an answer."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Self

from aiohttp import ClientSession, DummyCookieJar, web

SLOW_DOWN: Final = (
    b'<?xml version="1.0" encoding="UTF-8"?>'
    b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
)
NOT_PASSED_ON: Final = frozenset({"connection", "expect", "keep-alive", "transfer-encoding"})


class ThrottlingProxy:
    """Passes requests on; signatures stay valid, as they are of the name that the client used.

    Attributes:
        max_in_flight: more requests at a time are answered with 503 SlowDown.
        hang: so many GETs, the next ones, get no answer.
        puts_pass: PUTs wait until it is set, as it is at first.
        held: hashes of what PUTs had in their bodies that waited for that.
        asked, refused: requests by method.
        most_in_flight: that were passed on.
    """

    def __init__(self, server: str, session: ClientSession) -> None:
        self._server = server
        self._session = session
        self._in_flight = 0
        self._end = asyncio.Event()
        self.endpoint = ""
        self.max_in_flight = 1_000_000
        self.hang = 0
        self.puts_pass = asyncio.Event()
        self.puts_pass.set()
        self.held: set[int] = set()
        self.most_in_flight = 0
        self.asked: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()

    @classmethod
    @asynccontextmanager
    async def before(cls, server: str) -> AsyncIterator[Self]:
        """Listen on a free port of the loopback interface.

        Args:
            server: its endpoint URL.
        """
        async with ClientSession(cookie_jar=DummyCookieJar(), auto_decompress=False) as session:
            proxy = cls(server, session)
            app = web.Application(client_max_size=1 << 30)
            app.router.add_route("*", "/{path:.*}", proxy._handle)
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            proxy.endpoint = f"http://127.0.0.1:{runner.addresses[0][1]}"
            try:
                yield proxy
            finally:
                proxy._end.set()
                await runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.asked[request.method] += 1
        if request.method == "GET" and self.hang:
            self.hang -= 1
            await self._end.wait()
        if request.method == "PUT" and not self.puts_pass.is_set():
            self.held.add(hash(await request.read()))
            await self.puts_pass.wait()
        if self._in_flight >= self.max_in_flight:
            self.refused[request.method] += 1
            await request.read()
            return web.Response(status=503, body=SLOW_DOWN, content_type="application/xml")
        self._in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self._in_flight)
        try:
            return await self._pass_on(request)
        finally:
            self._in_flight -= 1

    async def _pass_on(self, request: web.Request) -> web.Response:
        headers = {
            name: value
            for name, value in request.headers.items()
            if name.lower() not in NOT_PASSED_ON
        }
        asked = self._session.request(
            request.method,
            f"{self._server}{request.raw_path}",
            headers=headers,
            data=await request.read() or None,
            allow_redirects=False,
        )
        async with asked as answer:
            passed = {
                name: value
                for name, value in answer.headers.items()
                if name.lower() not in NOT_PASSED_ON | {"content-length", "date", "server"}
            }
            if request.method == "HEAD":
                passed["Content-Length"] = answer.headers.get("Content-Length", "0")
            return web.Response(status=answer.status, headers=passed, body=await answer.read())
