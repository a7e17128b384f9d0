"""ListGroups: v0-5. v3 flexible, v4 states and a filter for them (KIP-518), v5 types (KIP-848).

Each broker lists the groups that it coordinates; tools ask all brokers. Filters take any case.

ACLs: DESCRIBE on the cluster, or else only groups with DESCRIBE are listed.
"""

from collections.abc import Awaitable
from typing import Any

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.requests import NOT_THROTTLED, Request
from protocol.acl import Operation, ResourceType


async def handle(request: Request) -> Awaitable[Payload]:
    """List the groups that pass both filters; an empty filter lets all pass."""
    return _respond(request, request.decode())


async def _respond(request: Request, body: Any) -> Payload:
    states = {state.lower() for state in getattr(body, "states_filter", ())}
    kinds = {kind.lower() for kind in getattr(body, "types_filter", ())}
    sees_all = request.allows(Operation.DESCRIBE, ResourceType.CLUSTER, audit=False)
    listed = [
        request.types.ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type,
            group_state=group.state,
            group_type=group.group_type.lower(),
        )
        async for group in request.services.groups.list()
        if not states or group.state.lower() in states
        if not kinds or group.group_type.lower() in kinds
        if sees_all or request.shows(ResourceType.GROUP, group.group_id)
    ]
    response: Payload = request.types.ListGroupsResponse(
        throttle_time=NOT_THROTTLED, error_code=ErrorCode.none, groups=tuple(listed)
    )
    return response
