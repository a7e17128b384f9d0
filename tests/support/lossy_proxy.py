"""A proxy on a unix socket between a broker and its Postgres that loses answers."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Self

SOCKET = ".s.PGSQL.5432"


class LossyProxy:
    """Passes bytes both ways, until told to lose those that come from the server.

    Attributes:
        times_cut: how often all connections were broken.
        lost: how many pieces of answers were lost.
    """

    def __init__(self, server: Path) -> None:
        self._server = server
        self.times_cut = 0
        self.lost = 0
        self._losing = False
        self._before_cut: Iterator[int] = iter(())
        self._left: int | None = None
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    @asynccontextmanager
    async def between(cls, directory: Path, server: Path) -> AsyncIterator[Self]:
        """Listen in `directory` for clients of the server whose socket is in `server`."""
        proxy = cls(server)
        listener = await asyncio.start_unix_server(proxy._accept, directory / SOCKET)
        try:
            yield proxy
        finally:
            proxy.cut()
            listener.close()
            await listener.wait_closed()
            await asyncio.gather(*proxy._tasks)

    def lose_answers(self) -> None:
        """From now on nothing comes back."""
        self._losing = True

    def cut_after(self, pieces: Iterable[int]) -> None:
        """Cut in place of each piece that comes back after so many, until no numbers are left."""
        self._before_cut = iter(pieces)
        self._left = next(self._before_cut, None)

    def cut(self) -> None:
        """Break all connections, and pass bytes again for new ones."""
        self.times_cut += 1
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()
        self._losing = False

    async def _accept(
        self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter
    ) -> None:
        times_cut = self.times_cut
        from_server, to_server = await asyncio.open_unix_connection(self._server / SOCKET)
        if self.times_cut != times_cut:  # all connections were broken, so this one is
            to_server.transport.abort()
            to_client.transport.abort()
            return
        self._writers += [to_client, to_server]
        self._tasks += [
            asyncio.create_task(self._pass(from_client, to_server, lossy=False)),
            asyncio.create_task(self._pass(from_server, to_client, lossy=True)),
        ]

    async def _pass(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, lossy: bool
    ) -> None:
        try:
            while data := await source.read(65536):
                if lossy and self._left is not None and self._is_next_cut(self._left):
                    self.cut()
                elif lossy and self._losing:
                    self.lost += 1
                else:
                    sink.write(data)
                    await sink.drain()
        except ConnectionError:
            pass  # cut
        finally:
            sink.transport.abort()

    def _is_next_cut(self, left: int) -> bool:
        self._left = left - 1 if left else next(self._before_cut, None)
        return left == 0
