"""SaslHandshake: v0-1. After v0 messages of the mechanism follow without headers (KIP-152).

Of clients that are not in yet broker/security/authentication.py takes it before it would come here.
"""

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.requests import Request


async def handle(request: Request) -> Payload:
    """Let a client on a listener with SASL authenticate itself again; others have no need to."""
    body, sasl = request.decode(), request.services.sasl
    if sasl is not None:
        return sasl.begin_again(request.version, body.mechanism, request.session)
    response: Payload = request.types.SaslHandshakeResponse(
        error_code=ErrorCode.illegal_sasl_state, mechanisms=()
    )
    return response
