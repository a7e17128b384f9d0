"""ConsumerGroupDescribe: v0-1 (KIP-848). v1 which protocol a member speaks.

Of consumer groups only: DescribeGroups is for classic ones. A group that is named twice is answered
once.

ACLs: DESCRIBE on each group, and on all topics that its members subscribe to or have.
"""

from collections.abc import Awaitable, Iterable
from itertools import groupby
from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.gradual import Gradually
from broker.groups.group_requests import named_group, outcomes
from broker.groups.group_runner import GroupRunner
from broker.refusals import Refusal
from broker.requests import NOT_THROTTLED, Request
from broker.security.authorized_operations import NOT_ASKED, authorized_operations
from coordinator.descriptions import ConsumerDescription, ConsumerMemberDescription
from protocol.acl import Operation, ResourceType
from protocol.ids import Partition

_CLASSIC_MEMBER: Final = 0
_CONSUMER_MEMBER: Final = 1
_HIDDEN: Final = "The group uses topics that this client may not describe."

Found = Awaitable[GroupRunner | None] | ErrorCode


async def handle(request: Request) -> Awaitable[Payload]:
    """Describe each group, named once or twice; one that cannot be answers for itself."""
    body = request.decode()
    groups = dict.fromkeys(body.group_ids)
    found = [(group_id, _find(request, group_id)) async for group_id in Gradually().each(groups)]
    return _respond(request, found, asked=body.include_authorized_operations)


def _find(request: Request, group_id: str) -> Found:
    try:
        request.authorize(Operation.DESCRIBE, ResourceType.GROUP, group_id)
        return request.services.groups.find(named_group(group_id))
    except Refusal as refusal:
        return refusal.code


async def _respond(request: Request, found: list[tuple[str, Found]], *, asked: bool) -> Payload:
    described = [
        _describe(request, group_id, outcome, asked=asked)
        async for group_id, outcome in outcomes(found)
    ]
    response: Payload = request.types.ConsumerGroupDescribeResponse(
        throttle_time=NOT_THROTTLED, groups=tuple(described)
    )
    return response


def _describe(
    request: Request, group_id: str, outcome: GroupRunner | ErrorCode | None, *, asked: bool
) -> object:
    if isinstance(outcome, ErrorCode):
        return _without(request, group_id, outcome, None)
    not_found = ErrorCode.group_id_not_found
    if outcome is None:
        return _without(request, group_id, not_found, f"Group {group_id} not found.")
    group = outcome.machine.describe()
    if not isinstance(group, ConsumerDescription):
        return _without(request, group_id, not_found, f"Group {group_id} is not a consumer group.")
    if not all(
        request.allows(Operation.DESCRIBE, ResourceType.TOPIC, name)
        for name in _topic_names(request, group)
    ):
        return _without(request, group_id, ErrorCode.topic_authorization_failed, _HIDDEN)
    operations = NOT_ASKED
    if asked:
        operations = authorized_operations(request, ResourceType.GROUP, group_id)
    return request.types.DescribedGroup(
        error_code=ErrorCode.none,
        error_message=None,
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor_name,
        members=tuple(_member(request, member) for member in group.members),
        authorized_operations=operations,
    )


def _topic_names(request: Request, group: ConsumerDescription) -> set[str]:
    """Return all topics that the description of a group would name."""
    topics = request.services.groups.catalog.current().by_id
    names = set[str]()
    for member in group.members:
        names.update(member.subscribed_topic_names)
        held = {one.topic_id for one in (*member.assignment, *member.target_assignment)}
        names.update(topics[topic_id].name for topic_id in held & topics.keys())
    return names


def _member(request: Request, member: ConsumerMemberDescription) -> object:
    return request.types.Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(member.subscribed_topic_names),
        subscribed_topic_regex=member.subscribed_topic_regex or "",
        assignment=_assignment(request, member.assignment),
        target_assignment=_assignment(request, member.target_assignment),
        member_type=_CLASSIC_MEMBER if member.is_classic else _CONSUMER_MEMBER,
    )


def _assignment(request: Request, partitions: Iterable[Partition]) -> object:
    """Return partitions by topic; a topic that has just been deleted is not shown."""
    types, topics = request.types, request.services.groups.catalog.current().by_id
    by_topic = groupby(sorted(partitions), key=lambda partition: partition.topic_id)
    return types.Assignment(
        topic_partitions=tuple(
            types.TopicPartitions(
                topic_id=topic_id,
                topic_name=topics[topic_id].name,
                partitions=tuple(partition.index for partition in of_topic),
            )
            for topic_id, of_topic in by_topic
            if topic_id in topics
        )
    )


def _without(request: Request, group_id: str, code: ErrorCode, message: str | None) -> object:
    return request.types.DescribedGroup(
        error_code=code,
        error_message=message,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=(),
        authorized_operations=NOT_ASKED,
    )
