"""Listening sockets, and the limits on who may hold a connection open."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from broker.broker_metrics import BrokerMetrics
from broker.network.addresses import Address
from broker.network.connection import Connection
from broker.network.listeners import Listener
from broker.network.memory import MemoryBudget
from broker.network.reception import Dispatcher, Reception, ServerLimits
from broker.network.refused_connections import RefusalLog, Refused
from broker.network.tls_connection import TlsConnection
from broker.quotas.quota_connections import ConnectionRates
from broker.security.tls import Tls

SWEEP_S: Final = 1.0
"""In which all connections are looked at, some now and then: 2,000 together took 10 ms, and who
produced meanwhile waited for 25."""
SWEPT_AT_ONCE: Final = 20
CLOSED_AT_ONCE: Final = 10
"""Connections that are closed in one turn of the event loop: a hundred took 33 ms."""


class Server:
    """Accepts clients and keeps account of them.

    Args:
        refusals: where to say why connections are refused; `sweep` flushes it.
        tls: for listeners with TLS; None if there are none.

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
        refusals: RefusalLog,
        tls: Tls | None = None,
    ) -> None:
        self._memory = memory
        self._metrics = metrics
        self.limits = limits
        self._rates = rates
        self._tls = tls
        self._refusals = refusals
        self._connections: set[Connection] = set()
        self._by_ip: Counter[str] = Counter()
        self._servers: list[asyncio.Server] = []
        self._listeners: list[Listener] = []
        self._accept: Sequence[Callable[[], Connection]] = ()

    async def bind(self, listener: Listener) -> int:
        """Take its address; return the port (chosen by the kernel for 0). Nobody is accepted yet.

        Raises:
            OSError: the address is not free.
        """
        at, (host, port) = len(self._servers), listener.address
        server = await asyncio.get_running_loop().create_server(
            lambda: self._accept[at](),  # noqa: PLW0108  # is not known before `serve`
            host,
            port,
            backlog=self.limits.backlog,
            reuse_address=True,
            start_serving=False,
        )
        self._servers.append(server)
        bound: int = server.sockets[0].getsockname()[1]
        self._listeners.append(Listener(listener.protocol, Address(host, bound)))
        return bound

    async def serve(self, dispatchers: Sequence[Dispatcher]) -> None:
        """Accept clients on every address taken; each listener has its own dispatcher."""
        self._accept = [
            self._acceptor(listener, dispatcher)
            for listener, dispatcher in zip(self._listeners, dispatchers, strict=True)
        ]
        for server in self._servers:
            await server.start_serving()

    def _acceptor(self, listener: Listener, dispatcher: Dispatcher) -> Callable[[], Connection]:
        """Return what makes the protocol object of a new connection."""
        reception = Reception(
            name=str(listener),
            protocol=listener.protocol,
            dispatcher=dispatcher,
            memory=self._memory,
            metrics=self._metrics,
            roll=self,
            refusals=self._refusals,
        )
        self._metrics.connections.labels(reception.name)  # 0 is told of, too
        tls = self._tls
        if tls is None or not listener.protocol.uses_tls:
            return lambda: Connection(reception, self.limits)
        context = tls.context_of(listener.protocol)
        return lambda: TlsConnection(reception, self.limits, context=context, name_of=tls.name_of)

    def admit(self, connection: Connection, ip: str) -> Refused | None:
        """Count a new connection; return why it is one too many, if it is."""
        limits = self.limits
        if len(self._connections) >= limits.max_connections:
            return Refused.TOO_MANY
        if self._by_ip.get(ip, 0) >= limits.max_connections_per_ip:
            return Refused.TOO_MANY_OF_IP
        self._connections.add(connection)
        self._by_ip[ip] += 1
        self._rates.admit(connection, ip)
        return None

    def forget(self, connection: Connection, ip: str) -> None:
        """Take note of the end of a connection."""
        if connection in self._connections:
            self._connections.remove(connection)
            self._by_ip[ip] -= 1
            if not self._by_ip[ip]:
                del self._by_ip[ip]

    async def sweep(self) -> None:
        """Close idle, stalled and deaf connections, and measure the event loop's lag, for ever."""
        while True:
            connections = tuple(self._connections)
            starts = range(0, len(connections), SWEPT_AT_ONCE) or range(1)
            for start in starts:
                await self._pause(SWEEP_S / len(starts))
                await self._close_expired(connections[start : start + SWEPT_AT_ONCE])
            self._refusals.flush()

    async def _pause(self, wait_s: float) -> None:
        loop = asyncio.get_running_loop()
        due_s = loop.time() + wait_s
        await asyncio.sleep(wait_s)
        self._metrics.loop_lag_seconds.observe(max(loop.time() - due_s, 0))

    async def _close_expired(self, connections: Sequence[Connection]) -> None:
        now_s = asyncio.get_running_loop().time()
        closed = 0
        for connection in connections:
            if connection not in self._connections:  # it has ended meanwhile
                continue
            expired = connection.expired(now_s, max_idle_s=self.limits.max_idle_s)
            if expired is not None:
                kind, reason = expired
                connection.refuse(reason, kind)
                closed += 1
                if closed % CLOSED_AT_ONCE == 0:
                    await asyncio.sleep(0)

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
