"""DescribeDelegationToken: v1-3 (KIP-48). v2 flexible, v3 requesters (KIP-373). Refused."""

from kio.static.protocol import Payload

from broker.requests import NOT_THROTTLED, Request
from broker.security.delegation_tokens import token_refusal


async def handle(request: Request) -> Payload:
    """Refuse to describe tokens."""
    request.decode()
    response: Payload = request.types.DescribeDelegationTokenResponse(
        error_code=token_refusal(request.session).code, tokens=(), throttle_time=NOT_THROTTLED
    )
    return response
