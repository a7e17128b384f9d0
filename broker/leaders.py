"""Who leads which partition, computed alike by every broker (D1).

Each partition likes brokers, the one with the highest hash of (partition, node id) best (rendezvous
hashing). As many consecutive partitions of a topic as brokers are known make a block, in which each
of them is dealt one: a partition goes to whom it likes best of those that none before it has taken.
So all lead as many partitions of a topic, give or take one, and new partitions move no old one.

Brokers that are not alive are dealt theirs, too, for the day that the cluster knows them; the live
one that each of these likes best leads it meanwhile. So when a broker goes, only what it led moves,
and comes back with it. A broker that was never there before makes all be dealt anew.
"""

import struct
from collections.abc import Sequence
from typing import Final

import mmh3

from protocol.ids import Partition
from storage.metadata.brokers import BrokerRecord

MOST_REMEMBERED: Final = 200_000

_NUMBER: Final = struct.Struct(">i")

Ranked = tuple[BrokerRecord, ...]
"""Brokers, the leader of a partition first."""


class Leaders:
    """What each of some brokers leads.

    Args:
        live: all that are alive, or those of a rack; at least one.
        dead: all that are known and not alive, or those of that rack.
    """

    def __init__(self, live: Sequence[BrokerRecord], dead: Sequence[BrokerRecord]) -> None:
        self._known = (*live, *dead)
        self._live = {one.node_id for one in live}
        self._ranked: dict[Partition, Ranked] = {}
        self._taken: dict[Partition, set[int]] = {}  # who was dealt one, by the block's first

    def ranked(self, partition: Partition) -> Ranked:
        """Return those that are alive, the leader of a partition first."""
        ranked = self._ranked.get(partition)
        if ranked is None:
            if len(self._ranked) >= MOST_REMEMBERED:  # of topics that are gone, for the most part
                self._ranked.clear()
                self._taken.clear()
            self._deal_up_to(partition)
            ranked = self._ranked[partition]
        return ranked

    def _deal_up_to(self, partition: Partition) -> None:
        """Deal what is not dealt yet of a block, no further: most topics have fewer partitions."""
        topic_id, last = partition
        first = last - last % len(self._known)
        taken = self._taken.setdefault(Partition(topic_id, first), set())
        for index in range(first + len(taken), last + 1):
            liked = rank(topic_id.bytes + _NUMBER.pack(index), self._known)
            dealt = next(one for one in liked if one.node_id not in taken)
            taken.add(dealt.node_id)
            ranked = (dealt, *(one for one in liked if one is not dealt))
            live = tuple(one for one in ranked if one.node_id in self._live)
            self._ranked[Partition(topic_id, index)] = live


def rank(key: bytes, brokers: Sequence[BrokerRecord]) -> Ranked:
    """Return the brokers in the order in which a key likes them."""

    def weight(broker: BrokerRecord) -> int:
        return mmh3.hash64(key + _NUMBER.pack(broker.node_id), signed=False)[0]

    return tuple(sorted(brokers, key=weight, reverse=True))
