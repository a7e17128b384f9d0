"""OffsetDelete: v0 (KIP-496). Committed offsets of topics that no member subscribes to.

ACLs: DELETE on the group, READ on each topic.
"""

from collections.abc import Awaitable, Sequence
from typing import Any

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.groups.group_requests import named_group
from broker.groups.group_runner import GroupRunner
from broker.groups.offset_requests import AskedTopic, Line, Lines, coded_topics, look_up_topics
from broker.refusals import Refusal, coordinating
from broker.requests import NOT_THROTTLED, Request
from coordinator.classic_subscription import CONSUMER_PROTOCOL
from coordinator.group import Group
from protocol.acl import Operation, ResourceType
from protocol.ids import Partition


async def handle(request: Request) -> Awaitable[Payload]:
    """Delete what can be; each partition answers for itself."""
    body = request.decode()
    request.authorize(Operation.DELETE, ResourceType.GROUP, body.group_id)
    group = request.services.groups.find(named_group(body.group_id))
    return _respond(request, body, group)


async def _respond(request: Request, body: Any, found: Awaitable[GroupRunner | None]) -> Payload:
    group = await found
    if group is None:
        raise Refusal(ErrorCode.group_id_not_found)
    machine = group.machine
    if not machine.is_empty and machine.protocol_type != CONSUMER_PROTOCOL:
        raise Refusal(ErrorCode.non_empty_group)  # nobody can tell what its members need
    with coordinating():
        topics = await look_up_topics(request, body.topics, Operation.READ)
    lines = await request.aside(_lines, topics)

    def choose(machine: Group) -> list[Partition]:
        subscribed = frozenset() if machine.is_empty else machine.subscribed_topics()
        for at, topic in enumerate(topics):
            if _is_subscribed(topic, subscribed):
                lines[at] = list(map(_kept, lines[at]))
        return [line for of_topic in lines for line in of_topic if isinstance(line, Partition)]

    if not await request.services.groups.delete_offsets(body.group_id, choose):
        raise Refusal(ErrorCode.group_id_not_found)
    return await request.aside(_response, request, topics, lines)


def _is_subscribed(topic: AskedTopic, subscribed: frozenset[str] | None) -> bool:
    """Tell whether a member needs the topic; where that is not known, it may."""
    return subscribed is None or topic.asked.name in subscribed


def _lines(topics: Sequence[AskedTopic]) -> list[list[Line]]:
    """Return for each partition that its offset is to go, or why it stays."""
    return [
        [topic.partition(asked.partition_index) for asked in topic.asked.partitions]
        for topic in topics
    ]


def _kept(line: Line) -> ErrorCode:
    """Return what answers a partition of a topic that a member subscribes to."""
    return line if isinstance(line, ErrorCode) else ErrorCode.group_subscribed_to_topic


def _response(request: Request, topics: Sequence[AskedTopic], lines: Lines) -> Payload:
    types = request.types
    answered = coded_topics(
        topics, lines, types.OffsetDeleteResponseTopic, types.OffsetDeleteResponsePartition
    )
    response: Payload = types.OffsetDeleteResponse(
        error_code=ErrorCode.none, throttle_time=NOT_THROTTLED, topics=answered
    )
    return response
