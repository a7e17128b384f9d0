"""JoinGroup: v0-9.

v1 rebalance timeout, v4 a new member first gets its id (KIP-394), v5 static members (KIP-345), v6
flexible, v7 protocol type (KIP-559), v8 reason (KIP-800), v9 skip_assignment (KIP-814).

Parked until the group has a new generation; the connection's other requests go on meanwhile, and
the frame's memory is given back. So what a member says of itself has limits: MAX_JOIN_BYTES in all,
MAX_JOIN_PROTOCOLS; beyond them it is INVALID_REQUEST. Beyond what all members of a group may say it
is GROUP_MAX_SIZE_REACHED.

ACLs: READ on the group, when the request comes: who may not read it any more hears so from its next
heartbeat.
Not done: the reason, which Kafka logs.
"""

from collections.abc import Awaitable
from functools import partial
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.groups.group_requests import (
    MAX_JOIN_BYTES,
    MAX_JOIN_PROTOCOLS,
    check_size,
    client_host,
    milliseconds,
    named_group,
)
from broker.refusals import Refusal
from broker.requests import NOT_THROTTLED, Request
from coordinator.answers import JoinAnswer
from coordinator.events import Join, Protocol, Token
from protocol.acl import Operation, ResourceType

_FIRST_REBALANCE_TIMEOUT: Final = 1
_FIRST_MEMBER_ID_REQUIRED: Final = 4
_FIRST_NULLABLE_PROTOCOL: Final = 7
_FIRST_SKIPPED_ASSIGNMENT: Final = 9


async def handle(request: Request) -> Awaitable[Payload]:
    """Join, or join again; a group comes into being with its first member."""
    check_size(request, MAX_JOIN_BYTES)
    body = request.decode()
    request.authorize(Operation.READ, ResourceType.GROUP, body.group_id)
    group_id, is_new = named_group(body.group_id), not body.member_id
    _check(request, body, is_new=is_new)
    answer = request.services.groups.handle(group_id, partial(_event, request, body), create=is_new)
    return _respond(request, answer, body.member_id)


def _check(request: Request, body: Any, *, is_new: bool) -> None:
    """Check what can be told without the group; nothing comes into being by what is refused here.

    Raises:
        Refusal: also INCONSISTENT_GROUP_PROTOCOL as the group would say it, of one who is new; who
            names a member learns first whether that is known.
    """
    config = request.services.config
    least_ms, most_ms = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
    if not least_ms <= milliseconds(body.session_timeout) <= most_ms:
        raise Refusal(ErrorCode.invalid_session_timeout)
    if len(body.protocols) > MAX_JOIN_PROTOCOLS:
        raise Refusal(ErrorCode.invalid_request, f"{len(body.protocols)} protocols")
    if is_new and not (body.protocol_type and body.protocols):
        raise Refusal(ErrorCode.inconsistent_group_protocol)


def _event(request: Request, body: Any, token: Token) -> Join:
    session_timeout_ms = milliseconds(body.session_timeout)
    rebalance_timeout_ms = session_timeout_ms
    if request.version >= _FIRST_REBALANCE_TIMEOUT:
        rebalance_timeout_ms = milliseconds(body.rebalance_timeout)
    instance_id = getattr(body, "group_instance_id", None)
    request.forget_frame()
    return Join(
        token=token,
        member_id=body.member_id,
        instance_id=instance_id,
        client_id=request.header.client_id,
        client_host=client_host(request),
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms,
        protocol_type=body.protocol_type,
        protocols=[Protocol(name=each.name, metadata=each.metadata) for each in body.protocols],
        needs_member_id=request.version >= _FIRST_MEMBER_ID_REQUIRED and instance_id is None,
        skips_assignment=request.version >= _FIRST_SKIPPED_ASSIGNMENT,
    )


async def _respond(
    request: Request, awaited: Awaitable[JoinAnswer | None], member_id: str
) -> Payload:
    answer, types = await awaited, request.types
    if answer is None:
        answer = JoinAnswer(error_code=ErrorCode.unknown_member_id, member_id=member_id)
    protocol_name = answer.protocol_name
    if request.version < _FIRST_NULLABLE_PROTOCOL:
        protocol_name = protocol_name or ""
    response: Payload = types.JoinGroupResponse(
        throttle_time=NOT_THROTTLED,
        error_code=answer.error_code,
        generation_id=answer.generation_id,
        protocol_type=answer.protocol_type,
        protocol_name=protocol_name,
        leader=answer.leader,
        skip_assignment=answer.skip_assignment,
        member_id=answer.member_id,
        members=tuple(
            types.JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata,
            )
            for member in answer.members
        ),
    )
    return response
