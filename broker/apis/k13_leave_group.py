"""LeaveGroup: v0-5.

v3 several members, also static ones by instance id (KIP-345), v4 flexible, v5 reason (KIP-800).

ACLs: READ on the group.
Not done: the reason, which Kafka logs.
"""

from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.groups.group_requests import named_group
from broker.requests import NOT_THROTTLED, Request
from coordinator.answers import LeaveAnswer, LeftMember
from coordinator.events import Leave, LeavingMember, Token
from protocol.acl import Operation, ResourceType

_FIRST_BATCHED: Final = 3


async def handle(request: Request) -> Awaitable[Payload]:
    """Take members out of their group; each answers for itself."""
    body = request.decode()
    request.authorize(Operation.READ, ResourceType.GROUP, body.group_id)
    members = await request.aside(_members, request, body)
    answer = request.services.groups.handle(named_group(body.group_id), partial(_event, members))
    return _respond(request, answer, members)


def _members(request: Request, body: Any) -> list[LeavingMember]:
    if request.version < _FIRST_BATCHED:
        return [LeavingMember(member_id=body.member_id, instance_id=None)]
    return [
        LeavingMember(member_id=member.member_id, instance_id=member.group_instance_id)
        for member in body.members
    ]


def _event(members: Sequence[LeavingMember], token: Token) -> Leave:
    return Leave(token=token, members=members)


async def _respond(
    request: Request, awaited: Awaitable[LeaveAnswer | None], members: Sequence[LeavingMember]
) -> Payload:
    return await request.aside(_response, request, await awaited, members)


def _response(
    request: Request, answer: LeaveAnswer | None, members: Sequence[LeavingMember]
) -> Payload:
    types = request.types
    left: Sequence[LeftMember] = answer.members if answer is not None else _all_unknown(members)
    alone = request.version < _FIRST_BATCHED
    response: Payload = types.LeaveGroupResponse(
        throttle_time=NOT_THROTTLED,
        error_code=left[0].error_code if alone else ErrorCode.none,
        members=tuple(
            types.MemberResponse(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                error_code=member.error_code,
            )
            for member in (() if alone else left)
        ),
    )
    return response


def _all_unknown(members: Sequence[LeavingMember]) -> list[LeftMember]:
    return [
        LeftMember(
            member_id=member.member_id,
            instance_id=member.instance_id,
            error_code=ErrorCode.unknown_member_id,
        )
        for member in members
    ]
