"""The brokers of the cluster, and what they own, as clients are told of them."""

import asyncio
import re
from collections.abc import Coroutine, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Final, Self, TypeVar

from broker.broker_set import BrokerSet
from broker.network.listeners import SecurityProtocol, parse_listener
from broker.shared_load import shared_task
from protocol.ids import Partition
from protocol.metadata_response import Placement
from storage.errors import MetadataUnavailable
from storage.metadata.brokers import BrokerRecord

LOG_EPOCH: Final = 0
"""The leader epoch of every batch: no log is ever truncated, so it has one epoch (KIP-101)."""

NOBODY: Final = -1
"""The leader of a partition whose owner clients cannot reach, or this broker cannot know."""

CUT_OFF_PAUSE_S: Final = 2.0
"""Before a broker that is cut off from Postgres refuses a client, at most. If all are, there is
nobody else to go to, and some clients give up after three tries, without much of a pause."""

_RACK: Final = re.compile(r"(?:^|[,;])rack=([^,;]+)")

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One broker.

    Attributes:
        host, port: where clients of some listener reach it (the advertised address).
    """

    node_id: int
    host: str
    port: int
    rack: str | None = None


class Cluster:
    """The cluster as the clients of one listener see it.

    They are told the addresses of listeners of the same protocol: at the others they would not be
    understood, or would say in the clear what they mean to say in secret. A broker without such a
    listener does not exist for them. What it owns has no leader and no coordinator, as in Apache
    Kafka: a client goes on asking until that broker has such a listener.

    Args:
        brokers: replaced by broker/membership.py whenever the set of live brokers changes.
        listener: of this broker, by its number; at other brokers the one of the same number counts,
            if its protocol is the same, else the first that has it.
        protocol: of the listener.

    Attributes:
        live: the brokers that are alive and that clients can reach.
        nodes: these, and those that were a moment ago.
    """

    def __init__(
        self,
        *,
        cluster_id: str,
        brokers: BrokerSet,
        listener: int,
        protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT,
    ) -> None:
        self.cluster_id = cluster_id
        self.listener = listener
        self.protocol = protocol
        self._unreachable: frozenset[int] = frozenset()
        self._asking: set[asyncio.Future[None]] = set()
        self.brokers = brokers
        self.live: tuple[Node, ...] = ()
        self._live_by_id: dict[int, Node] = {}
        self.nodes: tuple[Node, ...] = ()
        self.change(brokers)
        self.tell(brokers.membership.brokers)

    def change(self, brokers: BrokerSet) -> None:
        """Go over to another generation."""
        self.brokers = brokers
        everybody = brokers.membership.brokers
        self.live = self._reached(everybody)
        self._live_by_id = {node.node_id: node for node in self.live}
        reached = set(self._live_by_id)
        if brokers.is_cut_off:
            reached.discard(self.node_id)
        self._unreachable = frozenset(one.node_id for one in everybody) - reached
        if brokers.is_cut_off:
            for asking in self._asking:
                asking.cancel()

    async def unless_cut_off(self, ask: Coroutine[Any, Any, Result]) -> Result:
        """Return what Postgres is asked for, if it answers before this broker is cut off from it.

        A request that waits for Postgres holds up all that come behind it on its connection, by
        which the client would hear that it has to go to other brokers.

        Args:
            ask: changes nothing, for it may be answered later, when nobody waits any more. It is
                cancelled with who waits: nobody shares it.

        Raises:
            MetadataUnavailable: no answer.
        """
        if len(self.brokers.membership.brokers) == 1:  # it is never cut off: there is nobody else
            return await ask
        answer = shared_task(ask)
        asking = asyncio.get_running_loop().create_future()
        self._asking.add(asking)
        patience_s = CUT_OFF_PAUSE_S if self.brokers.is_cut_off else None
        try:
            await asyncio.wait(
                (answer, asking), timeout=patience_s, return_when=asyncio.FIRST_COMPLETED
            )
        except asyncio.CancelledError:
            answer.cancel()
            raise
        finally:
            self._asking.discard(asking)
        if not answer.done():
            raise MetadataUnavailable("cut off from Postgres")
        return answer.result()

    def tell(self, brokers: Sequence[BrokerRecord]) -> None:
        """Name these brokers to clients, for them to connect to."""
        self.nodes = self._reached(brokers)

    def frozen(self) -> Self:
        """Return the cluster as it is now, for an answer that takes a while to make."""
        return copy(self)

    @property
    def node_id(self) -> int:
        """Return the node id of this broker; it may have left the set of live ones already."""
        return self.brokers.membership.node_id

    @property
    def generation(self) -> int:
        """Return what grows with every change of the set of live brokers: all leaders' epoch."""
        return self.brokers.generation

    @property
    def controller(self) -> Node | BrokerRecord:
        """Return who is named controller; every broker can do what a controller does."""
        return self.live[0] if self.live else self.brokers.membership.brokers[0]

    def leads(self, partition: Partition) -> bool:
        """Whether this broker tells of a partition what only one may tell."""
        return self.brokers.leads(partition)

    def serves(self, partition: Partition) -> bool:
        """Whether clients are to produce to and fetch from this broker."""
        return self.brokers.serves(partition)

    def coordinator(self, key: str) -> Node | None:
        """Return who coordinates a group or a transactional id; None if clients cannot reach it."""
        coordinator = self.brokers.coordinator(key).node_id
        return None if coordinator in self._unreachable else self._live_by_id[coordinator]

    def reader(self, partition: Partition, rack: str) -> int:
        """Return the node id from which a consumer in `rack` shall fetch (KIP-392)."""
        reader = self.brokers.owner(partition, rack).node_id
        return self.node_id if reader in self._unreachable else reader

    def place(
        self, partition: Partition, replication_factor: int, rack: str | None = None
    ) -> Placement:
        """Return where a partition is; it has no leader if clients cannot reach who it would be."""
        in_sync = self.brokers.in_sync(partition, replication_factor, rack)
        offline = self.brokers.offline(replication_factor, len(in_sync))
        leader_id = NOBODY if in_sync[0] in self._unreachable else in_sync[0]
        return Placement(leader_id, self.generation, in_sync, offline)

    def placement(
        self, partition: Partition, replication_factor: int, rack: str | None = None
    ) -> dict[str, object]:
        """Return the same as the fields of whatever describes a partition."""
        place = self.place(partition, replication_factor, rack)
        return {
            "leader_id": place.leader_id,
            "leader_epoch": place.leader_epoch,
            "replica_nodes": place.in_sync + place.offline,
            "isr_nodes": place.in_sync,
            "offline_replicas": place.offline,
        }

    def rack_of(self, client_id: str) -> str | None:
        """Return the rack that a client names in its id ("app,rack=a"), if a broker is there."""
        if not self.brokers.racks:
            return None
        named = _RACK.search(client_id)
        return named[1] if named is not None and named[1] in self.brokers.racks else None

    def node(self, broker: BrokerRecord) -> Node | None:
        """Return a broker with the address that this listener's clients use, if it has one."""
        listeners = [parse_listener(text) for text in broker.addresses]
        same_place = listeners[self.listener : self.listener + 1]
        for listener in (*same_place, *listeners):
            if listener.protocol is self.protocol:
                host, port = listener.address
                return Node(node_id=broker.node_id, host=host, port=port, rack=broker.rack)
        return None

    def _reached(self, brokers: Sequence[BrokerRecord]) -> tuple[Node, ...]:
        nodes = (self.node(one) for one in brokers)
        return tuple(node for node in nodes if node is not None)
