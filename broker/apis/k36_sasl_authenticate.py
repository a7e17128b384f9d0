"""SaslAuthenticate: v0-2. v1 session lifetime (KIP-368), v2 flexible.

Of clients that are not in yet broker/security/authentication.py takes it before it would come here.
"""

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.requests import Request
from broker.security.sasl_responses import authenticate_response


async def handle(request: Request) -> Payload:
    """Tell a client that it is in: it has begun nothing that this could go on with."""
    request.decode()
    text = "There is no SASL exchange that this request belongs to."
    return authenticate_response(request.version, ErrorCode.illegal_sasl_state, text)
