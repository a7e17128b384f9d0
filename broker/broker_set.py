"""Which brokers are alive, and who of them owns what (D1).

Every broker computes the same owner of a partition or group from the same brokers (leaders.py);
each owns an equal share of every topic, and when one goes, only what it owned moves. Ownership of
partitions is for locality only: whoever appends, the offset comes from the commit.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Final

from broker.leaders import MOST_REMEMBERED, Leaders, rank
from protocol.ids import Partition
from storage.metadata.brokers import BrokerRecord, Membership

MAX_REMEMBERED_KEY: Final = 256


class BrokerSet:
    """One generation of live brokers, and what each of them owns.

    Attributes:
        is_cut_off: this broker cannot know any more what it owns, and acts as if it were nothing.
    """

    def __init__(self, membership: Membership, *, is_cut_off: bool = False) -> None:
        self.membership = membership
        self.is_cut_off = is_cut_off
        self.generation = membership.generation
        self.racks = frozenset(one.rack for one in membership.brokers if one.rack)
        self._leaders = Leaders(membership.brokers, membership.dead)
        self._of_racks = {
            rack: Leaders(
                _standing_in(rack, membership.brokers), _standing_in(rack, membership.dead)
            )
            for rack in self.racks
        }
        self._dead_ids = tuple(sorted((one.node_id for one in membership.dead), reverse=True))
        known = (*membership.brokers, *membership.dead)
        self._known_racks = len({one.rack for one in known if one.rack})
        self._served: dict[Partition, bool] = {}
        self._coordinators: dict[str, BrokerRecord] = {}

    def owner(self, partition: Partition, rack: str | None = None) -> BrokerRecord:
        """Return who owns a partition; of those in `rack`, if any broker is there."""
        owner = self._leaders.ranked(partition)[0]
        if rack in self.racks and owner.rack != rack:
            return self._of_racks[rack].ranked(partition)[0]
        return owner

    def leads(self, partition: Partition) -> bool:
        """Whether this broker is the one owner of a partition, racks aside."""
        return self.owner(partition).node_id == self.membership.node_id

    def serves(self, partition: Partition) -> bool:
        """Whether this broker owns a partition, for all clients or for those in its rack."""
        served = self._served.get(partition)
        if served is None:
            if len(self._served) >= MOST_REMEMBERED:
                self._served.clear()
            owners = {self.owner(partition, rack).node_id for rack in (None, *self.racks)}
            is_owner = self.membership.node_id in owners
            served = self._served[partition] = is_owner and not self.is_cut_off
        return served

    def replicas(
        self, partition: Partition, replication_factor: int, rack: str | None
    ) -> tuple[int, ...]:
        """Return the node ids of a partition's replicas; the leader for clients in `rack` is first.

        As many as the topic was created with, if so many brokers are known, and the owners of each
        rack: consumers read from a replica in their rack only if Metadata names it (KIP-392).
        """
        in_sync = self.in_sync(partition, replication_factor, rack)
        return in_sync + self.offline(replication_factor, len(in_sync))

    def offline(self, replication_factor: int, in_sync: int) -> tuple[int, ...]:
        """Return the node ids of a partition's replicas that are not alive, as far as known.

        Without them a replication factor would shrink while a broker starts anew, and tools that
        watch over it (Strimzi, Terraform) would want to set it right.
        """
        missing = max(replication_factor, self._known_racks) - in_sync
        return self._dead_ids[: max(missing, 0)]

    def in_sync(
        self, partition: Partition, replication_factor: int, rack: str | None
    ) -> tuple[int, ...]:
        """Return the node ids of those replicas that are alive; at least the leader, and first."""
        ranked = self._leaders.ranked(partition)
        if not self.racks:
            return tuple([one.node_id for one in ranked[: max(replication_factor, 1)]])
        leader = self.owner(partition, rack).node_id
        owners = (self.owner(partition, one).node_id for one in sorted(self.racks))
        replicas = list(dict.fromkeys((leader, *owners)))
        others = (one.node_id for one in ranked if one.node_id not in replicas)
        replicas += islice(others, max(replication_factor - len(replicas), 0))
        return tuple(replicas)

    def coordinator(self, key: str) -> BrokerRecord:
        """Return who coordinates a group or a transactional id."""
        coordinator = self._coordinators.get(key)
        if coordinator is None:
            if len(self._coordinators) >= MOST_REMEMBERED:
                self._coordinators.clear()
            coordinator = rank(key.encode(), self.membership.brokers)[0]
            if len(key) <= MAX_REMEMBERED_KEY:  # clients make them up, of any length
                self._coordinators[key] = coordinator
        return coordinator

    def coordinates(self, key: str) -> bool:
        """Whether this broker coordinates a group or a transactional id, and can know it."""
        return not self.is_cut_off and self.coordinator(key).node_id == self.membership.node_id


def _standing_in(rack: str, brokers: Sequence[BrokerRecord]) -> list[BrokerRecord]:
    return [one for one in brokers if one.rack == rack]
