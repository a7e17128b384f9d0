"""A proxy between clients and a broker that holds an EndTxn back, as a slow network does.

What is held stays on the broker's connection after the client has closed its own: the request is on
its way, and arrives when `Held.deliver` says so.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Self

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader

END_TXN: Final = 26
ANSWER_S: Final = 90.0


class Held:
    """The next EndTxn of a transactional id, which does not reach the broker by itself.

    Attributes:
        arrived: the client has sent it.
    """

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.arrived = asyncio.Event()
        self._released = asyncio.Event()
        self._answer: asyncio.Future[bytes] = loop.create_future()
        self._key = (END_TXN, -1)  # API and version
        self._correlation = b""

    async def deliver(self) -> ErrorCode:
        """Let it through; return what the broker answers, which the client may be too late to hear.

        Raises:
            ConnectionError: the broker closed the connection instead.
        """
        self._released.set()
        async with asyncio.timeout(ANSWER_S):
            frame = await self._answer
        kind: Any = load_response_schema(*self._key)
        answer, _ = entity_reader(kind)(frame, 5 if kind.__flexible__ else 4)
        code: ErrorCode = answer.error_code
        return code

    async def take(self, frame: bytes) -> None:
        """Return when the frame may go on."""
        self._key = (END_TXN, int.from_bytes(frame[2:4]))
        self._correlation = frame[4:8]
        self.arrived.set()
        await self._released.wait()

    def hear(self, frame: bytes) -> None:
        """Look at an answer of the broker: it may be the one to this request."""
        if frame[:4] == self._correlation and not self._answer.done():
            self._answer.set_result(frame)

    def lose(self) -> None:
        """Take note that the broker has closed the connection."""
        if not self._answer.done():
            self._answer.set_exception(ConnectionError("the broker closed the connection"))

    @property
    def is_answered(self) -> bool:
        return self._answer.done()


@dataclass(slots=True)
class _Link:
    """A client's connection and the one to the broker that belongs to it."""

    client: asyncio.StreamWriter
    broker: asyncio.StreamWriter
    held: list[Held] = field(default_factory=list)
    client_left: bool = False

    @property
    def is_over(self) -> bool:
        """Whether nobody waits for an answer any more, not even of a request that was held."""
        return self.client_left and all(held.is_answered for held in self.held)


class EndTxnProxy:
    """Passes frames both ways.

    Attributes:
        bootstrap: HOST:PORT for clients.
        broker: HOST:PORT of the broker, which advertises `bootstrap`; to be set before it is used.
    """

    def __init__(self) -> None:
        self.bootstrap = ""
        self.broker = ""
        self._to_hold: dict[str, Held] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @classmethod
    @asynccontextmanager
    async def listening(cls, port: int) -> AsyncIterator[Self]:
        """Take connections on a port."""
        proxy = cls()
        listener = await asyncio.start_server(proxy._accept, "127.0.0.1", port)
        proxy.bootstrap = f"127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        try:
            yield proxy
        finally:
            listener.close()
            for task in proxy._tasks:
                task.cancel()
            await asyncio.gather(*proxy._tasks, return_exceptions=True)

    def hold(self, transactional_id: str) -> Held:
        """Hold the next EndTxn of this id; those after it pass."""
        held = self._to_hold[transactional_id] = Held()
        return held

    async def _accept(
        self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter
    ) -> None:
        host, _, port = self.broker.rpartition(":")
        from_broker, to_broker = await asyncio.open_connection(host, int(port))
        link = _Link(to_client, to_broker)
        passing = [self._pass_requests(from_client, link), _pass_answers(from_broker, link)]
        for one in passing:
            task = asyncio.create_task(one)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass_requests(self, source: asyncio.StreamReader, link: _Link) -> None:
        try:
            while True:
                frame = await _read_frame(source)
                held = self._taken(frame)
                if held is not None:
                    link.held.append(held)
                    await held.take(frame)
                link.broker.write(len(frame).to_bytes(4) + frame)
                await link.broker.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            link.client_left = True
            if link.is_over:
                link.broker.close()

    def _taken(self, frame: bytes) -> Held | None:
        """Return what holds this request, if it is to be held."""
        api_key, version = int.from_bytes(frame[:2]), int.from_bytes(frame[2:4])
        if api_key != END_TXN:
            return None
        kind: Any = load_request_schema(api_key, version)
        _, body = entity_reader(kind.__header_schema__)(frame, 0)
        request, _ = entity_reader(kind)(frame, body)
        return self._to_hold.pop(request.transactional_id, None)


async def _pass_answers(source: asyncio.StreamReader, link: _Link) -> None:
    """Pass answers on; to a client that has left, one more is only looked at."""
    try:
        while not link.is_over:
            frame = await _read_frame(source)
            for held in link.held:
                held.hear(frame)
            if not link.client_left:
                link.client.write(len(frame).to_bytes(4) + frame)
    except (asyncio.IncompleteReadError, ConnectionError):
        for held in link.held:
            held.lose()
    finally:
        link.client.close()
        link.broker.close()


async def _read_frame(source: asyncio.StreamReader) -> bytes:
    size = int.from_bytes(await source.readexactly(4))
    return await source.readexactly(size)
