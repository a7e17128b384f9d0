"""A proxy between a broker and its S3 server that makes a request take as long as at a distant one.

An answer begins to go back that long after the request was complete, or when the server gives it
if that is later: what the server itself needs on this machine is part of the time, as it is of a
distant one's. What comes before the request is complete (100 Continue) passes at once, so that a
body that waits for leave is not delayed twice. It runs in a process of its own, whose time is
nobody's.
"""

import asyncio
import multiprocessing
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Final, cast

START_S: Final = 20.0
END_S: Final = 5.0
HEAD_END: Final = b"\r\n\r\n"
HEAD_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayingProxy:
    """A running proxy.

    Attributes:
        address: HOST:PORT, in place of the server's.
        pid: of its process.
    """

    address: str
    pid: int


@contextmanager
def delaying_proxy(
    server: str, *, delay_ms: float, methods: Sequence[str] = ()
) -> Iterator[DelayingProxy]:
    """Run a proxy on a free loopback port for the length of a block.

    Args:
        server: HOST:PORT of an HTTP/1.1 server, without TLS.
        delay_ms: that each request takes at least.
        methods: of the requests that are delayed, like PUT; none stands for all.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(
        target=_work, args=(theirs, server, delay_ms / 1000, frozenset(methods)), daemon=True
    )
    process.start()
    theirs.close()
    try:
        if not ours.poll(START_S):
            raise TimeoutError(f"no proxy after {START_S:.0f} s")
        assert process.pid is not None
        yield DelayingProxy(address=ours.recv(), pid=process.pid)
    finally:
        ours.close()  # which it takes for the order to end
        process.join(END_S)
        process.kill()
        process.join()


class RequestIntake:
    """Finds where each request of a connection ends; bodies have a Content-Length."""

    def __init__(self) -> None:
        self._head = b""
        self._method = ""
        self._body_left = 0

    def feed(self, data: bytes) -> str | None:
        """Take in bytes; return the method of the last request that they complete, if any.

        Raises:
            ValueError: a head is too long, or its body has no length that is known beforehand.
        """
        complete = None
        while data:
            if self._body_left:
                taken = min(self._body_left, len(data))
                self._body_left -= taken
                data = data[taken:]
            else:
                head, end, data = (self._head + data).partition(HEAD_END)
                if not end:
                    self._head = head
                    if len(head) > HEAD_BYTES:
                        raise ValueError("the head of a request does not end")
                    break
                self._head = b""
                self._method, self._body_left = _read_head(head)
            if not self._body_left:
                complete = self._method
        return complete


def _read_head(head: bytes) -> tuple[str, int]:
    request_line, *lines = head.decode("latin-1").split("\r\n")
    fields = {
        name.lower(): value.strip() for name, _, value in (one.partition(":") for one in lines)
    }
    if "transfer-encoding" in fields:
        raise ValueError("a body of unknown length is not passed on")
    return request_line.partition(" ")[0], int(fields.get("content-length", "0"))


class _ServerSide(asyncio.Protocol):
    """What comes from the server goes to the client, at once or held back."""

    def __init__(self, client_side: "_ClientSide") -> None:
        self._client_side = client_side
        self._transport: asyncio.Transport | None = None
        self._held: list[bytes] | None = None
        self._due_s: float | None = None
        """When the next bytes, the beginning of an answer, may go on; None: at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._due_s is not None:
            due_s, self._due_s = self._due_s, None
            self._held = [data]
            assert self._transport is not None
            self._transport.pause_reading()  # the rest may wait in the socket
            asyncio.get_running_loop().call_at(due_s, self._release)
        elif self._held is not None:
            self._held.append(data)
        else:
            self._client_side.transport.write(data)

    def hold(self, delay_s: float) -> None:
        """Let the next answer go on after that time, at the earliest."""
        self._due_s = asyncio.get_running_loop().time() + delay_s

    def connection_lost(self, exc: Exception | None) -> None:
        if self._held is None:
            self._client_side.transport.close()

    def pause_writing(self) -> None:
        self._client_side.transport.pause_reading()

    def resume_writing(self) -> None:
        self._client_side.transport.resume_reading()

    def _release(self) -> None:
        held, self._held = self._held or [], None
        self._client_side.transport.writelines(held)
        assert self._transport is not None
        if self._transport.is_closing():
            self._client_side.transport.close()
        else:
            self._transport.resume_reading()


class _ClientSide(asyncio.Protocol):
    """What comes from the client goes to the server at once, through a connection of its own."""

    def __init__(self, server: str, delay_s: float, late: Callable[[str], bool]) -> None:
        self._host, _, port = server.rpartition(":")
        self._port = int(port)
        self._delay_s = delay_s
        self._late = late
        self._intake = RequestIntake()
        self._server_side: _ServerSide | None = None
        self._to_server: asyncio.Transport | None = None
        self._connecting: asyncio.Task[None] | None = None
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.pause_reading()  # until there is a server to pass it on to
        self._connecting = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        try:
            to_server, self._server_side = await asyncio.get_running_loop().create_connection(
                lambda: _ServerSide(self), self._host, self._port
            )
        except OSError:
            self.transport.abort()  # as if the server itself had refused
            return
        self._to_server = to_server
        self.transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        assert self._server_side is not None
        assert self._to_server is not None
        try:
            complete = self._intake.feed(data)
        except ValueError:
            self.transport.abort()
            return
        if complete is not None and self._late(complete):
            self._server_side.hold(self._delay_s)
        self._to_server.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
        if self._to_server is not None:
            self._to_server.abort()

    def pause_writing(self) -> None:
        if self._to_server is not None:
            self._to_server.pause_reading()

    def resume_writing(self) -> None:
        if self._to_server is not None:
            self._to_server.resume_reading()


def _work(
    parent: "Connection[str, None]", server: str, delay_s: float, methods: frozenset[str]
) -> None:
    """Serve until the parent closes its end, or has died."""
    asyncio.run(_serve(parent, server, delay_s, methods))


async def _serve(
    parent: "Connection[str, None]", server: str, delay_s: float, methods: frozenset[str]
) -> None:
    def late(method: str) -> bool:
        return not methods or method in methods

    running = asyncio.get_running_loop()
    listener = await running.create_server(
        lambda: _ClientSide(server, delay_s, late), "127.0.0.1", 0
    )
    host, port = listener.sockets[0].getsockname()
    parent.send(f"{host}:{port}")
    ended = asyncio.Event()

    def wait_for_end() -> None:
        with suppress(EOFError, OSError):
            parent.recv()
        running.call_soon_threadsafe(ended.set)

    threading.Thread(target=wait_for_end, daemon=True).start()
    await ended.wait()
    listener.close()
