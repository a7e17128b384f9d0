"""RenewDelegationToken: v1-2 (KIP-48). v2 flexible. Refused."""

from kio.static.protocol import Payload

from broker.requests import NOT_THROTTLED, Request
from broker.security.delegation_tokens import token_refusal


async def handle(request: Request) -> Payload:
    """Refuse to renew a token."""
    request.decode()
    refusal = token_refusal(request.session)
    response: Payload = request.types.RenewDelegationTokenResponse(
        error_code=refusal.code, expiry_timestamp=refusal.time, throttle_time=NOT_THROTTLED
    )
    return response
