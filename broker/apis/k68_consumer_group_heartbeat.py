"""ConsumerGroupHeartbeat: v0-1 (KIP-848).

v1 subscription by a regular expression (RE2), and member ids that clients make.

ACLs: READ on the group; DESCRIBE on each topic that is named. A pattern matches only topics with
DESCRIBE for the member's own user, as ACLs are with each heartbeat: it loses others then.

Joining, leaving and acknowledging an assignment are all heartbeats; one that changes nothing does
not touch Postgres.

What a member says of itself is kept, and has limits: beyond MAX_MEMBER_BYTES it is INVALID_REQUEST,
beyond what all members of a group may say GROUP_MAX_SIZE_REACHED.
"""

import datetime as dt
from collections.abc import Awaitable, Sequence
from functools import partial
from itertools import groupby
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.primitive import i32Timedelta
from kio.static.protocol import Payload

from broker.groups.group_requests import client_host, milliseconds
from broker.refusals import coordinating
from broker.requests import NOT_THROTTLED, Request
from coordinator.answers import ConsumerHeartbeatAnswer
from coordinator.consumer_checks import check_new_pattern, check_request
from coordinator.consumer_member import JOINING_EPOCH
from coordinator.events import ConsumerHeartbeat, Token
from coordinator.refused import Refused
from protocol.acl import Operation, ResourceType
from protocol.ids import Partition

_FIRST_OWN_MEMBER_ID: Final = 1


async def handle(request: Request) -> Awaitable[Payload] | Payload:
    """Tell the group what a member says, and the member what it may hold."""
    body = request.decode()
    request.authorize(Operation.READ, ResourceType.GROUP, body.group_id)
    for name in body.subscribed_topic_names or ():
        request.authorize(Operation.DESCRIBE, ResourceType.TOPIC, name)
    try:
        _check_ids(request, body)
        event = _event(request, body, None)
        check_request(event, request.services.config.group_consumer_assignors)
        check_new_pattern(event)
    except Refused as refused:
        return _response(
            request,
            ConsumerHeartbeatAnswer(error_code=refused.error_code, error_message=refused.message),
        )
    with coordinating():
        for name in body.subscribed_topic_names or ():
            await request.services.topics.find(name)  # another broker may just have created it
    answer = request.services.groups.handle(
        body.group_id, partial(_event, request, body), create=body.member_epoch == JOINING_EPOCH
    )
    return _respond(request, answer, body.group_id)


def _check_ids(request: Request, body: Any) -> None:
    """Check that member and group are named; only a v0 client that joins has no id yet.

    Raises:
        Refused: INVALID_REQUEST.
    """
    needs_id = request.version >= _FIRST_OWN_MEMBER_ID or body.member_epoch != JOINING_EPOCH
    if needs_id and not body.member_id.strip():
        raise Refused(ErrorCode.invalid_request, "MemberId can't be empty.")
    if not body.group_id.strip():
        raise Refused(ErrorCode.invalid_request, "GroupId can't be empty.")


def _event(request: Request, body: Any, token: Token) -> ConsumerHeartbeat:
    owned = body.topic_partitions
    return ConsumerHeartbeat(
        token=token,
        member_id=body.member_id,
        member_epoch=body.member_epoch,
        instance_id=body.instance_id,
        rack_id=body.rack_id,
        client_id=request.header.client_id,
        client_host=client_host(request),
        principal=request.session.principal,
        rebalance_timeout_ms=milliseconds(body.rebalance_timeout),
        subscribed_topic_names=body.subscribed_topic_names,
        subscribed_topic_regex=getattr(body, "subscribed_topic_regex", None),
        server_assignor=body.server_assignor,
        owned_partitions=None if owned is None else _partitions(owned),
        catalog=request.services.groups.catalog.current(),
    )


def _partitions(topics: Sequence[Any]) -> list[Partition]:
    return [
        Partition(topic.topic_id, index)
        for topic in topics
        if topic.topic_id is not None  # no topic has the zero id
        for index in topic.partitions
    ]


async def _respond(
    request: Request, awaited: Awaitable[ConsumerHeartbeatAnswer | None], group_id: str
) -> Payload:
    answer = await awaited
    if answer is None:
        answer = ConsumerHeartbeatAnswer(
            error_code=ErrorCode.group_id_not_found, error_message=f"Group {group_id} not found."
        )
    return _response(request, answer)


def _response(request: Request, answer: ConsumerHeartbeatAnswer) -> Payload:
    types = request.types
    assignment = None
    if answer.assignment is not None:
        by_topic = groupby(sorted(answer.assignment), key=lambda partition: partition.topic_id)
        assignment = types.Assignment(
            topic_partitions=tuple(
                types.TopicPartitions(
                    topic_id=topic_id, partitions=tuple(partition.index for partition in partitions)
                )
                for topic_id, partitions in by_topic
            )
        )
    interval = dt.timedelta(milliseconds=answer.heartbeat_interval_ms)
    response: Payload = types.ConsumerGroupHeartbeatResponse(
        throttle_time=NOT_THROTTLED,
        error_code=answer.error_code,
        error_message=answer.error_message,
        member_id=answer.member_id,
        member_epoch=answer.member_epoch,
        heartbeat_interval=i32Timedelta.parse(interval),
        assignment=assignment,
    )
    return response
