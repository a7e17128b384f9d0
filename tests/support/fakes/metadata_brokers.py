"""The metadata port's brokers, in memory."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from storage.errors import BrokerDisplaced, IdentityTaken
from storage.metadata.brokers import (
    MOST_DEAD,
    SETTLED_MS,
    BrokerLife,
    BrokerRecord,
    Membership,
)
from storage.metadata.entity_configs import Entity, EntityKind

FORGET_MS = 24 * 60 * 60 * 1000


@dataclass(slots=True)
class _Broker:
    record: BrokerRecord
    incarnation: UUID
    live: bool
    heartbeat_ms: int
    returned_ms: int


class MemoryBrokers:
    """Brokers; see BrokerStore for what each method promises.

    Args:
        now_ms: the database's clock.
    """

    _entities: dict[Entity, tuple[dict[str, str], int]]
    _version: int

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._brokers: dict[int, _Broker] = {}
        self._generation = -1
        self._identities: dict[int, str] = {}  # who had each node id last

    async def register_broker(
        self,
        incarnation: UUID,
        addresses: Sequence[str],
        *,
        rack: str | None,
        preferred_node_id: int,
        alone: bool,
        time_to_live_ms: int,
    ) -> Membership:
        now_ms = self._now_ms()
        for one in self._brokers.values():
            one.live = one.live and not alone
            is_other = (
                one.incarnation != incarnation and one.heartbeat_ms >= now_ms - time_to_live_ms
            )
            if one.live and is_other and one.record.addresses[0] == addresses[0]:
                raise IdentityTaken(f"a broker that is alive advertises {addresses[0]}")
        self._forget_dead(now_ms, but=addresses[0])
        known = {one.record.addresses[0]: node_id for node_id, one in self._brokers.items()}
        mine = known.get(addresses[0])
        had = [one for one, identity in self._identities.items() if identity == addresses[0]]
        if mine is None:
            mine = min((one for one in had if one not in self._brokers), default=None)
        if mine is None:
            mine = preferred_node_id
            while mine in self._brokers:
                mine += 1
        self._brokers[mine] = _Broker(
            record=BrokerRecord(node_id=mine, addresses=tuple(addresses), rack=rack),
            incarnation=incarnation,
            live=True,
            heartbeat_ms=now_ms,
            returned_ms=now_ms,
        )
        if self._identities.setdefault(mine, addresses[0]) != addresses[0]:
            self._identities[mine] = addresses[0]
            self._empty_configs(str(mine))
        self._generation += 1
        return self._membership(mine)

    async def broker_heartbeat(
        self, node_id: int, incarnation: UUID, *, known_generation: int, time_to_live_ms: int
    ) -> Membership:
        mine = self._brokers.get(node_id)
        if mine is None or mine.incarnation != incarnation:
            raise BrokerDisplaced(f"another process has registered as broker {node_id}")
        now_ms = self._now_ms()
        oldest_ms = now_ms - time_to_live_ms
        steady = mine.live and mine.heartbeat_ms >= oldest_ms
        judges = steady and mine.returned_ms < oldest_ms
        changed = not mine.live or known_generation > self._generation
        silent_ms = min(oldest_ms, mine.heartbeat_ms - time_to_live_ms // 2)
        mine.live, mine.heartbeat_ms = True, now_ms
        if not steady:
            mine.returned_ms = now_ms
        for one in self._brokers.values():
            if judges and one.live and one.heartbeat_ms < silent_ms:
                one.live, changed = False, True
        if changed:
            lost = known_generation > self._generation
            self._generation = known_generation + 2 if lost else self._generation + 1
        return self._membership(node_id)

    async def deregister_broker(self, node_id: int, incarnation: UUID) -> Membership:
        mine = self._brokers.get(node_id)
        if mine is not None and mine.incarnation == incarnation and mine.live:
            mine.live = False
            mine.incarnation = UUID(int=0)
            self._generation += 1
        return self._membership(node_id)

    async def dead_brokers(self) -> list[BrokerRecord]:
        return [one.record for _, one in sorted(self._brokers.items()) if not one.live]

    async def forget_broker(self, node_id: int) -> BrokerLife:
        known = self._brokers.get(node_id)
        if known is None:
            return BrokerLife.UNKNOWN
        if known.live:
            return BrokerLife.LIVE
        del self._brokers[node_id]
        self._generation += 1
        return BrokerLife.DEAD

    def _empty_configs(self, name: str) -> None:
        for kind in (EntityKind.BROKER, EntityKind.BROKER_START):
            entity = Entity(kind, name)
            if self._entities.get(entity, ({}, 0))[0]:
                self._version += 1
                self._entities[entity] = {}, self._version

    def _forget_dead(self, now_ms: int, *, but: str) -> None:
        dead = [
            (
                one.heartbeat_ms < now_ms - FORGET_MS,
                one.heartbeat_ms - one.returned_ms < SETTLED_MS,
                -one.heartbeat_ms,
                node_id,
            )
            for node_id, one in self._brokers.items()
            if not one.live and one.record.addresses[0] != but
        ]
        most = max(MOST_DEAD, sum(one.live for one in self._brokers.values()))
        for at, (is_old, *_, node_id) in enumerate(sorted(dead)):
            if at >= most or is_old:
                del self._brokers[node_id]

    def _membership(self, node_id: int) -> Membership:
        known = [one for _, one in sorted(self._brokers.items())]
        return Membership(
            node_id=node_id,
            generation=self._generation,
            brokers=[one.record for one in known if one.live],
            dead=[replace(one.record, addresses=()) for one in known if not one.live],
        )
