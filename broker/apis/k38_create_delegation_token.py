"""CreateDelegationToken: v1-3 (KIP-48). v2 flexible, v3 for other owners (KIP-373). Refused."""

from kio.static.protocol import Payload

from broker.delegation_tokens import NEVER, PRINCIPAL, PRINCIPAL_TYPE, REFUSAL
from broker.requests import NOT_THROTTLED, Request


async def handle(request: Request) -> Payload:
    """Refuse to make a token."""
    request.decode()
    response: Payload = request.types.CreateDelegationTokenResponse(
        error_code=REFUSAL,
        principal_type=PRINCIPAL_TYPE,
        principal_name=PRINCIPAL,
        token_requester_principal_type=PRINCIPAL_TYPE,
        token_requester_principal_name=PRINCIPAL,
        issue_timestamp=NEVER,
        expiry_timestamp=NEVER,
        max_timestamp=NEVER,
        token_id="",
        hmac=b"",
        throttle_time=NOT_THROTTLED,
    )
    return response
