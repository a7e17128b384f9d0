"""The members of consumer groups, as one answer to ConsumerGroupDescribe shows them.

Each of a thousand members may name the same thousands of topics, those that it has found itself:
what the group has in memory once is in the answer for each of them. So such a set is looked at once
and put in order once, with turns for others; and as names may come to a thousand times what the
members have said, their bytes are counted.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker.gradual import Gradually
from broker.network.outbox import BACKLOG_BYTES, Reservation
from broker.refusals import Refusal
from broker.requests import Request
from coordinator.catalog import CatalogTopic
from coordinator.descriptions import ConsumerDescription, ConsumerMemberDescription
from protocol.acl import Operation, ResourceType
from protocol.ids import Partition

_CLASSIC_MEMBER: Final = 0
_CONSUMER_MEMBER: Final = 1
_LENGTH_BYTES: Final = 2


class ShownConsumerGroups:
    """Those of one answer.

    Args:
        request: that is answered.
        room: for the answer.
    """

    def __init__(self, request: Request, room: Reservation) -> None:
        self._request = request
        self._room = room
        self._gradually = Gradually()
        self._topics: Mapping[UUID, CatalogTopic] = {}

    async def members(self, group: ConsumerDescription) -> tuple[object, ...]:
        """Return the members of a group.

        Raises:
            Refusal: TOPIC_AUTHORIZATION_FAILED, GROUP_MAX_SIZE_REACHED where there is never room
                for them, or COORDINATOR_LOAD_IN_PROGRESS where there is none now.
        """
        self._topics = self._request.services.groups.catalog.current().by_id
        await self._check_topics(group.members)
        uses = Counter(member.subscribed_topic_names for member in group.members)
        sizes = [count * await self._checked_bytes(names) for names, count in uses.items()]
        self._take_room(sum(sizes))
        in_order = dict[frozenset[str], tuple[str, ...]]()
        shown = list[object]()
        async for member in self._gradually.each(group.members):
            said = member.subscribed_topic_names
            if said not in in_order:
                in_order[said] = tuple(sorted(said))
            shown.append(self._member(member, in_order[said]))
        return tuple(shown)

    async def _check_topics(self, members: Iterable[ConsumerMemberDescription]) -> None:
        """Check that the client may know of all topics that members have, or shall have."""
        held = set[UUID]()
        async for member in self._gradually.each(members):
            held.update(one.topic_id for one in member.assignment | member.target_assignment)
        async for topic_id in self._gradually.each(held & self._topics.keys()):
            self._check_name(self._topics[topic_id].name)

    async def _checked_bytes(self, names: Iterable[str]) -> int:
        """Check that the client may know of these topics; return how long they are on the wire."""
        size = 0
        async for name in self._gradually.each(names):
            self._check_name(name)
            size += _LENGTH_BYTES + len(name.encode())
        return size

    def _check_name(self, name: str) -> None:
        if not self._request.allows(Operation.DESCRIBE, ResourceType.TOPIC, name):
            raise Refusal(
                ErrorCode.topic_authorization_failed,
                "The group uses topics that this client may not describe.",
            )

    def _take_room(self, size: int) -> None:
        if size > BACKLOG_BYTES:
            raise Refusal(
                ErrorCode.group_max_size_reached,
                f"The topics that all members name have {size} bytes;"
                f" a group with more than {BACKLOG_BYTES} is not described.",
            )
        if not self._room.take(size):
            raise Refusal(
                ErrorCode.coordinator_load_in_progress,
                f"There is no room for {size} bytes now; ask for this group again.",
            )

    def _member(self, member: ConsumerMemberDescription, names: tuple[str, ...]) -> object:
        return self._request.types.Member(
            member_id=member.member_id,
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            member_epoch=member.member_epoch,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=names,
            subscribed_topic_regex=member.subscribed_topic_regex or "",
            assignment=self._assignment(member.assignment),
            target_assignment=self._assignment(member.target_assignment),
            member_type=_CLASSIC_MEMBER if member.is_classic else _CONSUMER_MEMBER,
        )

    def _assignment(self, partitions: Iterable[Partition]) -> object:
        """Return partitions by topic; a topic that has just been deleted is not shown."""
        types, by_topic = self._request.types, dict[UUID, list[int]]()
        for partition in partitions:
            by_topic.setdefault(partition.topic_id, []).append(partition.index)
        return types.Assignment(
            topic_partitions=tuple(
                types.TopicPartitions(
                    topic_id=topic_id,
                    topic_name=self._topics[topic_id].name,
                    partitions=tuple(sorted(indexes)),
                )
                for topic_id, indexes in sorted(by_topic.items())
                if topic_id in self._topics
            )
        )
