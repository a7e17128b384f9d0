"""DescribeAcls: v1-3. v2 flexible, v3 resources of users (KIP-373)."""

from kio.static.protocol import Payload

from broker.authorizer import check_known, no_authorizer
from broker.requests import NOT_THROTTLED, Request


async def handle(request: Request) -> Payload:
    """Say that there are no ACLs to describe."""
    asked = request.decode()
    check_known(
        asked.resource_type_filter,
        asked.pattern_type_filter,
        asked.operation,
        asked.permission_type,
    )
    refusal = no_authorizer()
    response: Payload = request.types.DescribeAclsResponse(
        throttle_time=NOT_THROTTLED,
        error_code=refusal.code,
        error_message=str(refusal),
        resources=(),
    )
    return response
