"""What assignors see of a group, and topics put together by who subscribes to them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from protocol.ids import Partition

TopicSizes = Mapping[UUID, int]
"""Partition counts of all topics that members subscribe to."""

Assignment = dict[str, frozenset[Partition]]
"""Partitions by member id; every member has an entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignorMember:
    """A member as an assignor sees it.

    Attributes:
        topic_ids: topics it subscribes to that exist.
        target: what it was to hold so far.
    """

    member_id: str
    instance_id: str | None
    topic_ids: frozenset[UUID]
    target: frozenset[Partition]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Topics with the same subscribers: each of their partitions may go to each of these members.

    Attributes:
        topic_ids: sorted.
        members: in the order in which they were given.
    """

    topic_ids: Sequence[UUID]
    members: Sequence[AssignorMember]


def pools_of(members: Sequence[AssignorMember]) -> list[Pool]:
    """Return disjoint pools with all subscribed topics, those with the fewest members first."""
    kinds: dict[frozenset[UUID], int] = {}
    for member in members:
        kinds.setdefault(member.topic_ids, len(kinds))
    kinds_of_topic = defaultdict[UUID, list[int]](list)
    for topic_ids, kind in kinds.items():
        for topic_id in topic_ids:
            kinds_of_topic[topic_id].append(kind)
    topics_of_kinds = defaultdict[tuple[int, ...], list[UUID]](list)
    for topic_id, kinds_subscribed in kinds_of_topic.items():
        topics_of_kinds[tuple(kinds_subscribed)].append(topic_id)
    members_of_kind = defaultdict[int, list[int]](list)
    for position, member in enumerate(members):
        members_of_kind[kinds[member.topic_ids]].append(position)
    pools = [
        Pool(
            topic_ids=sorted(topic_ids),
            members=[
                members[position]
                for position in sorted(p for kind in subscribed for p in members_of_kind[kind])
            ],
        )
        for subscribed, topic_ids in topics_of_kinds.items()
    ]
    return sorted(pools, key=lambda pool: (len(pool.members), pool.topic_ids[0]))
