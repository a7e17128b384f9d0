"""DeleteGroups: v0-2 (KIP-229). v2 flexible. Groups without members, with their offsets.

ACLs: DELETE on each group.
"""

from collections.abc import Awaitable

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.gradual import Gradually
from broker.groups.group_requests import outcomes
from broker.requests import NOT_THROTTLED, Request
from protocol.acl import Operation, ResourceType


async def handle(request: Request) -> Awaitable[Payload]:
    """Delete each group, named once or twice; one that cannot be answers for itself."""
    body = request.decode()
    groups = dict.fromkeys(body.groups_names)
    deletions = {
        group_id: _delete(request, group_id) async for group_id in Gradually().each(groups)
    }
    return _respond(request, deletions)


def _delete(request: Request, group_id: str) -> Awaitable[ErrorCode] | ErrorCode:
    if not request.allows(Operation.DELETE, ResourceType.GROUP, group_id):
        return ErrorCode.group_authorization_failed
    return request.services.groups.delete(group_id)


async def _respond(
    request: Request, deletions: dict[str, Awaitable[ErrorCode] | ErrorCode]
) -> Payload:
    types = request.types
    results = [
        types.DeletableGroupResult(group_id=group_id, error_code=code)
        async for group_id, code in outcomes(deletions.items())
    ]
    response: Payload = types.DeleteGroupsResponse(
        throttle_time=NOT_THROTTLED, results=tuple(results)
    )
    return response
