"""CreateAcls: v1-3. v2 flexible, v3 resources of users (KIP-373)."""

from kio.static.protocol import Payload

from broker.authorizer import check_known, no_authorizer
from broker.requests import NOT_THROTTLED, Request


async def handle(request: Request) -> Payload:
    """Refuse each ACL."""
    refusal, types = no_authorizer(), request.types
    creations = request.decode().creations
    for asked in creations:
        check_known(
            asked.resource_type,
            asked.resource_pattern_type,
            asked.operation,
            asked.permission_type,
        )
    response: Payload = types.CreateAclsResponse(
        throttle_time=NOT_THROTTLED,
        results=tuple(
            types.AclCreationResult(error_code=refusal.code, error_message=str(refusal))
            for _ in creations
        ),
    )
    return response
