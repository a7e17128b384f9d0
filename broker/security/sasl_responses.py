"""The responses of SaslHandshake and SaslAuthenticate."""

import datetime as dt
from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.primitive import i64Timedelta
from kio.static.protocol import Payload

from protocol.codec import RequestHeader, error_response, response_types

SASL_HANDSHAKE: Final = 17
SASL_AUTHENTICATE: Final = 36


def authenticate_response(
    version: int,
    code: ErrorCode,
    message: str | None,
    answer: bytes = b"",
    *,
    lifetime_ms: int = 0,
) -> Payload:
    """Return the response to SaslAuthenticate."""
    response: Payload = response_types(SASL_AUTHENTICATE, version).SaslAuthenticateResponse(
        error_code=code,
        error_message=message,
        auth_bytes=answer,
        session_lifetime=i64Timedelta.parse(dt.timedelta(milliseconds=lifetime_ms)),
    )
    return response


def handshake_response(version: int, code: ErrorCode, mechanisms: tuple[str, ...]) -> Payload:
    """Return the response to SaslHandshake."""
    response: Payload = response_types(SASL_HANDSHAKE, version).SaslHandshakeResponse(
        error_code=code, mechanisms=mechanisms
    )
    return response


def illegal_state(header: RequestHeader) -> Payload:
    """Return the response to a request that is known, but not now."""
    response = error_response(header.api_key, header.api_version, ErrorCode.illegal_sasl_state)
    assert response is not None, "ApiVersions and SaslHandshake have a code of their own"
    return response
