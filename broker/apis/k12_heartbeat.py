"""Heartbeat: v0-4. v1 throttle time, v3 static members (KIP-345), v4 flexible.

Never touches Postgres. ACLs: READ on the group. Not done: throttling.
"""

from collections.abc import Awaitable
from functools import partial
from typing import Any

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.groups.group_requests import named_group
from broker.requests import NOT_THROTTLED, Request
from coordinator.answers import HeartbeatAnswer
from coordinator.events import Heartbeat, Token
from protocol.acl import Operation, ResourceType


async def handle(request: Request) -> Awaitable[Payload]:
    """Keep a classic member in its group, and tell it when that rebalances."""
    body = request.decode()
    request.authorize(Operation.READ, ResourceType.GROUP, body.group_id)
    group_id = named_group(body.group_id)
    answer = request.services.groups.handle(group_id, partial(_event, body), overtakes=True)
    return _respond(request, answer)


def _event(body: Any, token: Token) -> Heartbeat:
    return Heartbeat(
        token=token,
        generation_id=body.generation_id,
        member_id=body.member_id,
        instance_id=getattr(body, "group_instance_id", None),
    )


async def _respond(request: Request, awaited: Awaitable[HeartbeatAnswer | None]) -> Payload:
    answer = await awaited
    code = ErrorCode.unknown_member_id if answer is None else answer.error_code
    response: Payload = request.types.HeartbeatResponse(
        throttle_time=NOT_THROTTLED, error_code=code
    )
    return response
