"""The proxy adds time to answers and changes nothing else."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from itertools import pairwise

import pytest
from aiohttp import ClientSession, web
from hypothesis import given
from hypothesis import strategies as st

from bench.versus.delaying_proxy import RequestIntake, delaying_proxy

BODY = bytes(range(256)) * 4096
NEVER_MS = 3_600_000.0
PATIENCE_S = 20.0


@pytest.fixture
async def server() -> AsyncIterator[str]:
    """Run a server that answers with what it got."""

    async def echo(request: web.Request) -> web.Response:
        return web.Response(body=await request.read(), headers={"Method": request.method})

    app = web.Application(client_max_size=1 << 24)
    app.router.add_route("*", "/{name:.*}", echo)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    yield f"{host}:{port}"
    await runner.cleanup()


async def test_each_answer_comes_late_and_whole(server: str) -> None:
    # Given a proxy that delays everything, and one connection
    with delaying_proxy(server, delay_ms=50) as proxy:
        async with ClientSession() as session:
            for method in ("PUT", "GET", "PUT"):
                # When a request with a large body goes through it
                began_s = time.monotonic()
                url = f"http://{proxy.address}/a"
                async with session.request(method, url, data=BODY) as answer:
                    body = await answer.read()

                # Then its answer is what the server gave, that much later
                assert time.monotonic() - began_s >= 0.05
                assert answer.headers["Method"] == method
                assert body == BODY


async def test_only_the_named_methods_are_delayed(server: str) -> None:
    # Given a proxy that holds answers to PUT for ever
    with delaying_proxy(server, delay_ms=NEVER_MS, methods=("PUT",)) as proxy:
        # When something is read, then it is answered
        async with (
            asyncio.timeout(PATIENCE_S),
            ClientSession() as session,
            session.get(f"http://{proxy.address}/a") as answer,
        ):
            assert answer.status == 200


async def test_leave_to_send_a_body_is_not_delayed(server: str) -> None:
    # Given a proxy that holds answers for ever
    with delaying_proxy(server, delay_ms=NEVER_MS) as proxy:
        host, _, port = proxy.address.rpartition(":")
        async with asyncio.timeout(PATIENCE_S):
            reader, writer = await asyncio.open_connection(host, int(port))

            # When a client asks whether it may send
            writer.write(
                b"PUT /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"
            )

            # Then it is told at once
            assert await reader.readline() == b"HTTP/1.1 100 Continue\r\n"
            writer.close()
            await writer.wait_closed()


async def test_a_server_that_is_gone_ends_the_connection() -> None:
    # Given a proxy whose server does not listen
    with delaying_proxy("127.0.0.1:1", delay_ms=0) as proxy:
        host, _, port = proxy.address.rpartition(":")
        async with asyncio.timeout(PATIENCE_S):
            reader, writer = await asyncio.open_connection(host, int(port))

            # When a client connects, then its connection ends
            with suppress(ConnectionError):
                assert await reader.read() == b""
            writer.close()


@given(sizes=st.lists(st.integers(0, 300), max_size=8), data=st.data())
def test_where_requests_end_does_not_depend_on_how_bytes_arrive(
    sizes: list[int], data: st.DataObject
) -> None:
    # Given requests with and without bodies, on one connection
    stream, ends = b"", {}
    for number, size in enumerate(sizes):
        length = f"Content-length: {size}\r\n" if size else ""
        stream += f"M{number} / HTTP/1.1\r\nHost: a\r\n{length}\r\n".encode() + b"\r" * size
        ends[len(stream)] = f"M{number}"
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)))) | {0, len(stream)})

    # When they arrive in pieces, then each piece names the last request that it completes
    intake = RequestIntake()
    for begin, end in pairwise(cuts):
        completed = [method for at, method in ends.items() if begin < at <= end]
        assert intake.feed(stream[begin:end]) == (completed[-1] if completed else None)


def test_a_body_of_unknown_length_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown length"):
        RequestIntake().feed(b"PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
