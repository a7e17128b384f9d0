"""Listening sockets, and the limits on who may hold a connection open."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from broker.connection import Connection, Dispatcher
from broker.memory import MemoryBudget
from broker.metrics import BrokerMetrics
from broker.quota_connections import ConnectionRates

SWEEP_S: Final = 1.0

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """By Kafka's names.

    Attributes:
        max_frame_bytes: socket.request.max.bytes.
        max_idle_s: connections.max.idle.ms, in seconds.
        backlog: connections that the kernel holds for us.
    """

    max_frame_bytes: int
    max_connections: int
    max_connections_per_ip: int
    max_idle_s: float
    backlog: int


class Server:
    """Accepts clients and keeps account of them.

    Attributes:
        limits: in force; connections that are open already keep those on frames.
    """

    def __init__(
        self,
        *,
        memory: MemoryBudget,
        metrics: BrokerMetrics,
        limits: ServerLimits,
        rates: ConnectionRates,
    ) -> None:
        self._memory = memory
        self._metrics = metrics
        self.limits = limits
        self._rates = rates
        self._connections: set[Connection] = set()
        self._by_ip: Counter[str] = Counter()
        self._servers: list[asyncio.Server] = []
        self._dispatchers: Sequence[Dispatcher] = ()

    async def bind(self, host: str, port: int) -> int:
        """Take host:port; return the port (chosen by the kernel for 0). Nobody is accepted yet.

        Raises:
            OSError: the address is not free.
        """
        listener = len(self._servers)
        server = await asyncio.get_running_loop().create_server(
            lambda: self._connection(listener),
            host,
            port,
            backlog=self.limits.backlog,
            reuse_address=True,
            start_serving=False,
        )
        self._servers.append(server)
        bound: int = server.sockets[0].getsockname()[1]
        return bound

    async def serve(self, dispatchers: Sequence[Dispatcher]) -> None:
        """Accept clients on every address taken; each listener has its own dispatcher."""
        self._dispatchers = dispatchers
        for server in self._servers:
            await server.start_serving()

    def admit(self, connection: Connection, ip: str) -> bool:
        """Count a new connection; False if it is one too many."""
        limits = self.limits
        if len(self._connections) >= limits.max_connections:
            return False
        if self._by_ip[ip] >= limits.max_connections_per_ip:
            return False
        self._connections.add(connection)
        self._by_ip[ip] += 1
        self._rates.admit(connection, ip)
        return True

    def forget(self, connection: Connection, ip: str) -> None:
        """Take note of the end of a connection."""
        if connection in self._connections:
            self._connections.remove(connection)
            self._by_ip[ip] -= 1
            if not self._by_ip[ip]:
                del self._by_ip[ip]

    async def sweep(self) -> None:
        """Close idle, stalled and deaf connections, and measure the event loop's lag, for ever."""
        loop = asyncio.get_running_loop()
        while True:
            due_s = loop.time() + SWEEP_S
            await asyncio.sleep(SWEEP_S)
            now_s = loop.time()
            self._metrics.loop_lag_seconds.observe(max(now_s - due_s, 0))
            for connection in tuple(self._connections):
                reason = connection.expired(now_s, max_idle_s=self.limits.max_idle_s)
                if reason:
                    connection.refuse(reason)

    def unmute(self) -> None:
        """Let all muted connections go on: quotas have changed, and it may not be their turn."""
        for connection in tuple(self._connections):
            connection.unmute()

    def stop_accepting(self) -> None:
        for server in self._servers:
            server.close()

    async def close(self, deadline_s: float) -> None:
        """Let every connection have the answers under way, then end it."""
        finishing = [asyncio.create_task(one.finish()) for one in tuple(self._connections)]
        if finishing:
            await asyncio.wait(finishing, timeout=deadline_s)

    def _connection(self, listener: int) -> Connection:
        return Connection(
            dispatcher=self._dispatchers[listener],
            memory=self._memory,
            metrics=self._metrics,
            max_frame_bytes=self.limits.max_frame_bytes,
            roll=self,
        )
