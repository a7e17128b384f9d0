"""The range assignor: each topic is cut into runs, one for each subscriber.

Topics with equal partition counts and subscribers are cut alike, so partition i of each of them
goes to the same member, which can join them (co-partitioning). Static members come first, by
instance id, so that a restart moves nothing.
"""

from collections.abc import Sequence

from coordinator.assignor_pools import Assignment, AssignorMember, TopicSizes, pools_of
from protocol.ids import Partition


def assign_range(members: Sequence[AssignorMember], sizes: TopicSizes) -> Assignment:
    """Assign every partition; a member's share of a topic differs by one at most."""
    shares: dict[str, list[Partition]] = {member.member_id: [] for member in members}
    for pool in pools_of(sorted(members, key=_order)):
        for topic_id in pool.topic_ids:
            share, extra = divmod(sizes[topic_id], len(pool.members))
            start = 0
            for position, member in enumerate(pool.members):
                end = start + share + (position < extra)
                shares[member.member_id] += [Partition(topic_id, i) for i in range(start, end)]
                start = end
    return {member_id: frozenset(share) for member_id, share in shares.items()}


def _order(member: AssignorMember) -> tuple[bool, str]:
    if member.instance_id is not None:
        return False, member.instance_id
    return True, member.member_id
