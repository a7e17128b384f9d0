"""CreateDelegationToken: v1-3 (KIP-48). v2 flexible, v3 for other owners (KIP-373). Refused."""

from kio.static.protocol import Payload

from broker.requests import NOT_THROTTLED, Request
from broker.security.delegation_tokens import PRINCIPAL_TYPE, token_refusal


async def handle(request: Request) -> Payload:
    """Refuse to make a token."""
    request.decode()
    refusal, user = token_refusal(request.session), request.session.principal
    response: Payload = request.types.CreateDelegationTokenResponse(
        error_code=refusal.code,
        principal_type=PRINCIPAL_TYPE,
        principal_name=user,
        token_requester_principal_type=PRINCIPAL_TYPE,
        token_requester_principal_name=user,
        issue_timestamp=refusal.time,
        expiry_timestamp=refusal.time,
        max_timestamp=refusal.time,
        token_id="",
        hmac=b"",
        throttle_time=NOT_THROTTLED,
    )
    return response
