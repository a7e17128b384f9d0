"""What the connections of one listener have in common."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from broker.broker_metrics import BrokerMetrics
from broker.network.answer_when import Reply
from broker.network.listeners import SecurityProtocol
from broker.network.memory import MemoryBudget
from broker.network.refused_connections import RefusalLog, Refused

if TYPE_CHECKING:
    from broker.network.connection import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """By Kafka's names.

    Attributes:
        max_frame_bytes: socket.request.max.bytes.
        max_early_bytes: sasl.server.max.receive.size: of a frame before authentication.
        max_idle_s: connections.max.idle.ms, in seconds; may be infinite.
        backlog: connections that the kernel holds for us.
    """

    max_frame_bytes: int
    max_early_bytes: int
    max_connections: int
    max_connections_per_ip: int
    max_idle_s: float
    backlog: int


class Dispatcher(Protocol):
    """Turns a frame into its answer, at once or later; raises CloseConnection.

    `give_back` may be called once the frame is decoded and cleared; else its memory is counted
    until the answer is known.
    """

    async def dispatch(
        self, frame: bytearray, connection: "Connection", give_back: Callable[[], None]
    ) -> Reply: ...


class Roll(Protocol):
    """Counts connections."""

    def admit(self, connection: "Connection", ip: str) -> Refused | None:
        """Count a new connection; return why it is one too many, if it is."""
        ...

    def forget(self, connection: "Connection", ip: str) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Reception:
    """One listener as its connections see it.

    Attributes:
        name: the listener in metrics: PROTOCOL://HOST:PORT.
        refusals: where to say why a connection is refused.
    """

    name: str
    protocol: SecurityProtocol
    dispatcher: Dispatcher
    memory: MemoryBudget
    metrics: BrokerMetrics
    roll: Roll
    refusals: RefusalLog
