"""The members of consumer groups, as one answer to ConsumerGroupDescribe shows them.

Each of a thousand members may name the same thousands of topics, those that it has found itself:
what the group has in memory once is in the answer for each of them. So such a set is looked at once
and put in order once, with turns for others; and as names may come to a thousand times what the
members have said, their bytes are counted, and names left out where these are too many: the admin
clients do not show them.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker.gradual import Gradually
from broker.network.outbox import Reservation
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
        """Return the members of a group; where there is no room for what they name, without that.

        Raises:
            Refusal: TOPIC_AUTHORIZATION_FAILED.
        """
        self._topics = self._request.services.groups.catalog.current().by_id
        await self._check_topics(group.members)
        in_order = await self._names_in_order(group.members)
        return await self._gradually.made(
            self._member(member, in_order[member.subscribed_topic_names])
            for member in group.members
        )

    async def _names_in_order(
        self, members: Iterable[ConsumerMemberDescription]
    ) -> Mapping[frozenset[str], Sequence[str]]:
        """Return each set that members name in order, if the client may know of all of them."""
        uses = Counter(member.subscribed_topic_names for member in members)
        named, size = set[str](), 0
        for names, count in uses.items():
            named |= names
            size += count * sum(_LENGTH_BYTES + len(name.encode()) for name in names)
            await asyncio.sleep(0)
        async for name in self._gradually.each(named):
            self._check_name(name)
        if not self._room.take(size):
            return dict.fromkeys(uses, ())
        in_order = dict[frozenset[str], Sequence[str]]()
        for names in uses:
            in_order[names] = tuple(sorted(names))
            await asyncio.sleep(0)
        return in_order

    async def _check_topics(self, members: Iterable[ConsumerMemberDescription]) -> None:
        """Check that the client may know of all topics that members have, or shall have."""
        held = set[UUID]()
        async for member in self._gradually.each(members):
            held.update(one.topic_id for one in member.assignment | member.target_assignment)
        async for topic_id in self._gradually.each(held & self._topics.keys()):
            self._check_name(self._topics[topic_id].name)

    def _check_name(self, name: str) -> None:
        if not self._request.allows(Operation.DESCRIBE, ResourceType.TOPIC, name):
            raise Refusal(
                ErrorCode.topic_authorization_failed,
                "The group uses topics that this client may not describe.",
            )

    def _member(self, member: ConsumerMemberDescription, names: Sequence[str]) -> object:
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
