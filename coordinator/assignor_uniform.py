"""The uniform assignor: as even as subscriptions allow, and as few moves as evenness allows.

Each pool of topics with the same subscribers is levelled: partitions go to the least loaded
members of the pool until none has over one more than another, counting what members have of other
pools. With one pool (equal subscriptions) once is enough and moves the fewest partitions possible.
With several pools it is repeated until no pool changes: then no partition can move to a member
that has two less.
"""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from coordinator.assignor_pools import Assignment, AssignorMember, Pool, TopicSizes, pools_of
from protocol.ids import Partition

MAX_ROUNDS: Final = 64
MAX_WORK: Final = 1_000_000
"""Bounds rounds x members of all pools; each step of it takes about a microsecond."""


def assign_uniform(members: Sequence[AssignorMember], sizes: TopicSizes) -> Assignment:
    """Assign every partition to one of its subscribers."""
    pools = [_Levelled(pool, sizes) for pool in pools_of(members)]
    load = {member.member_id: 0 for member in members}
    for pool in pools:
        for member_id, held in pool.held.items():
            load[member_id] += len(held)
    for pool in pools:
        pool.place_free(load)
    width = sum(len(pool.held) for pool in pools)
    rounds = max(1, min(MAX_ROUNDS, MAX_WORK // max(1, width)))
    for _ in range(rounds):
        if not [pool for pool in pools if pool.level(load)]:
            break
    shares: dict[str, list[Partition]] = {member.member_id: [] for member in members}
    for pool in pools:
        for member_id, held in pool.held.items():
            shares[member_id] += held
    return {member_id: frozenset(share) for member_id, share in shares.items()}


class _Levelled:
    """One pool's partitions and their holders.

    Attributes:
        held: by member id, in no order.
        free: partitions without a holder, by topic, so that handing them out in turn gives every
            member some of each topic.
    """

    def __init__(self, pool: Pool, sizes: TopicSizes) -> None:
        self.held: dict[str, list[Partition]] = {}
        free = {topic_id: dict.fromkeys(range(sizes[topic_id])) for topic_id in pool.topic_ids}
        for member in pool.members:
            held = self.held[member.member_id] = []
            for partition in member.target:  # hashed once: a UUID takes its time
                indexes = free.get(partition.topic_id, {})
                if partition.index in indexes:
                    del indexes[partition.index]
                    held.append(partition)
        self.free = [Partition(topic_id, i) for topic_id, indexes in free.items() for i in indexes]

    def place_free(self, load: dict[str, int]) -> None:
        """Give away what is free; what members hold stays."""
        wanted = _level({member_id: load[member_id] for member_id in self.held}, len(self.free))
        self._hand_out(wanted, load)

    def level(self, load: dict[str, int]) -> bool:
        """Make loads as even as this pool can; tell whether anything moved."""
        other = {member_id: load[member_id] - len(held) for member_id, held in self.held.items()}
        total = sum(len(held) for held in self.held.values())
        now = {member_id: len(held) for member_id, held in self.held.items()}
        wanted = _level(other, total, preferred=now)
        for member_id, held in self.held.items():
            if len(held) > wanted[member_id]:
                held.sort(key=_by_index)  # so that it keeps some of each topic
                self.free += held[wanted[member_id] :]
                load[member_id] -= len(held) - wanted[member_id]
                del held[wanted[member_id] :]
        if not self.free:
            return False
        self.free.sort()
        missing = {
            member_id: wanted[member_id] - len(held) for member_id, held in self.held.items()
        }
        self._hand_out(missing, load)
        return True

    def _hand_out(self, missing: dict[str, int], load: dict[str, int]) -> None:
        free = iter(self.free)
        waiting = [member_id for member_id, count in missing.items() if count]
        while waiting:
            for member_id in waiting:
                self.held[member_id].append(next(free))
                load[member_id] += 1
                missing[member_id] -= 1
            waiting = [member_id for member_id in waiting if missing[member_id]]
        self.free = []


def _by_index(partition: Partition) -> tuple[int, UUID]:
    return partition.index, partition.topic_id


def _level(
    base: dict[str, int], count: int, *, preferred: dict[str, int] | None = None
) -> dict[str, int]:
    """Add `count` units to the bases, so that the greatest sum is as small as possible.

    Args:
        base: by member.
        count: units to add; the result has that sum.
        preferred: who has how many now; the last units go to those who have the most above the
            common level, so that nothing moves without need.
    """
    order = sorted(base, key=base.__getitem__)
    reached, filled = 0, 0  # the first `reached` members are filled up to `filled`
    spare = count
    for position, member_id in enumerate(order):
        needed = (base[member_id] - filled) * position
        if needed > spare:
            break
        spare -= needed
        filled = base[member_id]
        reached = position + 1
    if not reached:
        return dict.fromkeys(base, 0)
    each, extra = divmod(spare, reached)
    filled += each
    added = dict.fromkeys(base, 0)
    for member_id in order[:reached]:
        added[member_id] = filled - base[member_id]
    takers = order[:reached]
    if extra and preferred is not None:
        takers = sorted(takers, key=lambda member_id: added[member_id] - preferred[member_id])
    for member_id in takers[:extra]:
        added[member_id] += 1
    return added
