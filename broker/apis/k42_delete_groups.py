"""DeleteGroups: v0-2 (KIP-229). v2 flexible. Groups without members, with their offsets."""

from collections.abc import Awaitable

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.group_requests import outcome_of
from broker.requests import NOT_THROTTLED, Request


async def handle(request: Request) -> Awaitable[Payload]:
    """Delete each group, named once or twice; one that cannot be answers for itself."""
    body = request.decode()
    delete = request.services.groups.delete
    deletions = {group_id: delete(group_id) for group_id in dict.fromkeys(body.groups_names)}
    return _respond(request, deletions)


async def _respond(request: Request, deletions: dict[str, Awaitable[ErrorCode]]) -> Payload:
    types = request.types
    results = [
        types.DeletableGroupResult(group_id=group_id, error_code=await outcome_of(deletion))
        for group_id, deletion in deletions.items()
    ]
    response: Payload = types.DeleteGroupsResponse(
        throttle_time=NOT_THROTTLED, results=tuple(results)
    )
    return response
