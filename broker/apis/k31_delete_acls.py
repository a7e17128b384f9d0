"""DeleteAcls: v1-3. v2 flexible, v3 resources of users (KIP-373)."""

from kio.static.protocol import Payload

from broker.authorizer import check_known, no_authorizer
from broker.requests import NOT_THROTTLED, Request


async def handle(request: Request) -> Payload:
    """Refuse each filter."""
    refusal, types = no_authorizer(), request.types
    filters = request.decode().filters
    for asked in filters:
        check_known(
            asked.resource_type_filter,
            asked.pattern_type_filter,
            asked.operation,
            asked.permission_type,
        )
    response: Payload = types.DeleteAclsResponse(
        throttle_time=NOT_THROTTLED,
        filter_results=tuple(
            types.DeleteAclsFilterResult(
                error_code=refusal.code, error_message=str(refusal), matching_acls=()
            )
            for _ in filters
        ),
    )
    return response
