"""What attackers have in common: an address to come from, a pace, connections that may end."""

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

CONNECT_S: Final = 10.0

Attack = Callable[["Target", float], Awaitable[None]]
"""Attacks until that time of the monotonic clock."""


@dataclass(slots=True, kw_only=True)
class Target:
    """A broker under attack, and what happens to its attackers.

    Attributes:
        address: of its plaintext listener.
        tls, sasl: of its other listeners; None if it has none.
        topics: to be abused, by what they are for.
        done: events by name: connections, requests, ends …
    """

    address: tuple[str, int]
    tls: tuple[str, int] | None = None
    sasl: tuple[str, int] | None = None
    topics: dict[str, str] = field(default_factory=dict)
    done: Counter[str] = field(default_factory=Counter)


class Source:
    """Loopback addresses: good clients have 127.0.0.1, each kind of attacker some of its own."""

    def __init__(self, first: int, count: int = 1) -> None:
        self._hosts: Iterator[str] = itertools.cycle(
            f"127.0.0.{first + number}" for number in range(count)
        )

    def next(self) -> tuple[str, int]:
        """Return a local address to bind to."""
        return next(self._hosts), 0


Connected = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def connected(
    target: Target, source: Source, *, to: tuple[str, int] | None = None
) -> AsyncIterator[Connected | None]:
    """Connect from an attacker's address; None if the broker does not let it. Ends with a reset."""
    host, port = to or target.address
    try:
        async with asyncio.timeout(CONNECT_S):
            reader, writer = await asyncio.open_connection(
                host, port, local_addr=source.next(), limit=2**14
            )
    except OSError:  # includes TimeoutError
        target.done["not connected"] += 1
        yield None
        return
    target.done["connected"] += 1
    try:
        yield reader, writer
    except (ConnectionError, asyncio.IncompleteReadError):
        target.done["ended by the broker"] += 1
    finally:
        writer.transport.abort()


class Pace:
    """Lets something happen so often a second, never faster to make up for what was late."""

    def __init__(self, per_s: float) -> None:
        self._period_s = 1 / per_s
        self._next_s = time.monotonic()

    async def wait(self) -> None:
        now_s = time.monotonic()
        self._next_s = max(self._next_s + self._period_s, now_s)
        await asyncio.sleep(self._next_s - now_s)


async def ask(connection: Connected, frame: bytes, *, timeout_s: float = 30.0) -> bytes:
    """Send a frame and return its answer; what the answer says is nobody's business here.

    Raises:
        ConnectionError, asyncio.IncompleteReadError: the connection ended.
    """
    reader, writer = connection
    writer.write(frame)
    await writer.drain()
    try:
        async with asyncio.timeout(timeout_s):
            size = int.from_bytes(await reader.readexactly(4))
            return await reader.readexactly(size)
    except TimeoutError as late:
        raise ConnectionResetError(f"no answer in {timeout_s} s") from late
