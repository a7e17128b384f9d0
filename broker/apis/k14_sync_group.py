"""SyncGroup: v0-5.

v1 throttle time, v3 static members (KIP-345), v4 flexible, v5 protocol type and name, which must be
the group's (KIP-559).

Parked until the leader's assignment is here and saved; the frame's memory is given back meanwhile.
So it has a limit, MAX_SYNC_BYTES; beyond it is INVALID_REQUEST. ACLs: READ on the group.
"""

from collections.abc import Awaitable
from functools import partial
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.groups.group_requests import MAX_SYNC_BYTES, check_size, named_group
from broker.refusals import Refusal
from broker.requests import NOT_THROTTLED, Request
from coordinator.answers import SyncAnswer
from coordinator.events import Sync, Token
from protocol.acl import Operation, ResourceType

_FIRST_WITH_PROTOCOL: Final = 5


async def handle(request: Request) -> Awaitable[Payload]:
    """Give a member its assignment; take all of them from the leader."""
    check_size(request, MAX_SYNC_BYTES)
    body = request.decode()
    if request.version >= _FIRST_WITH_PROTOCOL and None in {body.protocol_type, body.protocol_name}:
        raise Refusal(ErrorCode.inconsistent_group_protocol)
    request.authorize(Operation.READ, ResourceType.GROUP, body.group_id)
    group_id = named_group(body.group_id)
    answer = request.services.groups.handle(group_id, partial(_event, request, body))
    return _respond(request, answer)


def _event(request: Request, body: Any, token: Token) -> Sync:
    request.forget_frame()
    return Sync(
        token=token,
        generation_id=body.generation_id,
        member_id=body.member_id,
        instance_id=getattr(body, "group_instance_id", None),
        protocol_type=getattr(body, "protocol_type", None),
        protocol_name=getattr(body, "protocol_name", None),
        assignments={each.member_id: each.assignment for each in body.assignments},
    )


async def _respond(request: Request, awaited: Awaitable[SyncAnswer | None]) -> Payload:
    answer = await awaited
    if answer is None:
        answer = SyncAnswer(error_code=ErrorCode.unknown_member_id)
    response: Payload = request.types.SyncGroupResponse(
        throttle_time=NOT_THROTTLED,
        error_code=answer.error_code,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name,
        assignment=answer.assignment,
    )
    return response
