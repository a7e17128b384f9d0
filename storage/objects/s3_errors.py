"""What an S3 client's exceptions mean: try again, or say what to mend."""

import ssl
from typing import Final

from aiohttp import ClientConnectorCertificateError, ClientConnectorSSLError
from aiohttp import ClientError as TransferError
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    HTTPClientError,
    IncompleteReadError,
    InvalidRegionError,
    NoCredentialsError,
    ProfileNotFound,
)
from botocore.exceptions import (
    ConnectionError as NoConnection,
)
from botocore.exceptions import (
    SSLError as NoTls,
)
from botocore.parsers import ResponseParserError

from storage.errors import ObjectStoreUnavailable

# Everything that a request to S3 raises for reasons outside this process.
S3_ERRORS: Final = (ClientError, BotoCoreError, ResponseParserError, TransferError, TimeoutError)
# Everything that making a client raises for such reasons; a ValueError is about the endpoint.
CLIENT_ERRORS: Final = (BotoCoreError, ValueError)

_TRANSIENT_ERRORS: Final = (
    CredentialRetrievalError,
    HTTPClientError,
    IncompleteReadError,
    NoConnection,
    ResponseParserError,  # half an answer, or a proxy's error page
    TransferError,
    TimeoutError,
)
# Besides 5xx. A put that meets 409 or 412 asks what is stored before it comes here: nothing was;
# one that meets 417 is sent in another way.
_TRANSIENT_STATUS: Final = frozenset((408, 409, 412, 417, 429))
_UNKNOWN_TO_SERVER: Final = frozenset((501, 505))
_MESSAGE_CHARACTERS: Final = 200
# Codes that come with status 400, or inside a successful answer to DeleteObjects.
_TRANSIENT_CODES: Final = frozenset(
    ("BadDigest", "InternalError", "RequestTimeout", "ServiceUnavailable")
)
# How S3 and its kin ask for fewer requests, with 503, 429 or 400. Another 503 is trouble.
_THROTTLE_CODES: Final = frozenset(
    (
        *("SlowDown", "SlowDownRead", "SlowDownWrite", "TooManyRequests", "RequestLimitExceeded"),
        *("Throttling", "ThrottlingException", "RequestThrottled", "BandwidthLimitExceeded"),
        "KMS.ThrottlingException",
    )
)
_CREDENTIALS_FIX: Final = "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and the bucket's policy"
_CHAIN_FIX: Final = "mend that, or what AWS_PROFILE, AWS_WEB_IDENTITY_TOKEN_FILE or the like name"
_REGION_FIX: Final = "name the bucket's region in the store URL: ?region=R"
_PROFILE_FIX: Final = "AWS_PROFILE names one of AWS_CONFIG_FILE (~/.aws/config)"
_ENDPOINT_FIX: Final = "name the server in the store URL: ?endpoint=URL"
_CERTIFICATE_FIX: Final = "its certificate is not trusted; AWS_CA_BUNDLE names an authority's file"
_NO_TLS_REASONS: Final = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")
_NO_TLS_FIX: Final = "the server speaks no TLS: use http:// or another port in the endpoint"
_FIXES: Final = {
    "AccessDenied": _CREDENTIALS_FIX,
    "AuthorizationHeaderMalformed": _REGION_FIX,
    "InvalidAccessKeyId": _CREDENTIALS_FIX,
    "NoSuchBucket": "create the bucket",
    "PermanentRedirect": _REGION_FIX,
    "RequestTimeTooSkewed": "set this machine's clock",
    "SignatureDoesNotMatch": _CREDENTIALS_FIX,
}


# How to mend what keeps a client from being made; the first that fits.
_CLIENT_FIXES: Final = (
    (ProfileNotFound, _PROFILE_FIX),
    (InvalidRegionError, _REGION_FIX),
    (ValueError, _ENDPOINT_FIX),
)


def check_authority(bundle: str | None) -> None:
    """Check that an authority's file can be used; the first request would fail again and again.

    Args:
        bundle: from AWS_CA_BUNDLE, or a profile's ca_bundle; None without either.

    Raises:
        ObjectStoreUnavailable: it is not there, or has no certificate.
    """
    if not bundle:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(bundle)
    except ssl.SSLError as error:
        raise ObjectStoreUnavailable(f"AWS_CA_BUNDLE: {bundle} has no certificates") from error
    except OSError as error:
        told = f"AWS_CA_BUNDLE: {bundle} cannot be read: {error.strerror}"
        raise ObjectStoreUnavailable(told) from error


def status_of(error: ClientError) -> int:
    """Return the HTTP status; 0 if the error was inside a successful answer."""
    return error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)


def code_of(error: ClientError) -> str:
    """Return S3's name of the error; for HEAD, which has no body, the status as text."""
    return error.response.get("Error", {}).get("Code", "")


def is_of_object(error: ClientError) -> bool:
    """Tell whether a GET failed because of the one object: it is archived, or its key is gone.

    A 404 without S3's name for it is a proxy's, and passes. Without credentials for an object
    (AccessDenied), most often nothing can be had.
    """
    code = code_of(error)
    return code == "InvalidObjectState" or (code.startswith("KMS.") and not is_transient(error))


def is_transient(error: Exception) -> bool:
    """Tell whether the same request may succeed a little later."""
    if isinstance(error, ClientError):
        status = status_of(error)
        trouble = status >= 500 and status not in _UNKNOWN_TO_SERVER
        return (
            trouble
            or status in _TRANSIENT_STATUS
            or code_of(error) in _TRANSIENT_CODES | _THROTTLE_CODES
        )
    if _tls_fix(error):
        return False
    return isinstance(error, _TRANSIENT_ERRORS)


def is_throttle(error: Exception) -> bool:
    """Tell whether the server asks for fewer requests; it is well otherwise."""
    return isinstance(error, ClientError) and (
        status_of(error) == 429 or code_of(error) in _THROTTLE_CODES
    )


def describe(error: Exception) -> str:
    """Say in one line what happened, and what to do about it where that is known."""
    if isinstance(error, ClientError):
        text = f"{status_of(error)} {code_of(error)}"
        fix = _FIXES.get(code_of(error))
        return f"{text}; {fix}" if fix else f"{text}{_message(error)}"
    if isinstance(error, NoCredentialsError):
        return f"no credentials found; {_CREDENTIALS_FIX}"
    if isinstance(error, CredentialRetrievalError):
        return f"{error}; {_CHAIN_FIX}"
    if fix := _tls_fix(error):
        return f"{error}; {fix}"
    return str(error) or type(error).__name__


def describe_client(error: Exception) -> str:
    """Say in one line why a client could not be made, and what to do about it where that is known.

    Args:
        error: one of CLIENT_ERRORS.
    """
    for kind, fix in _CLIENT_FIXES:
        if isinstance(error, kind):
            return f"{str(error).rstrip('.')}; {fix}"
    return describe(error)


def _message(error: ClientError) -> str:
    """Return what the server said besides the code, in one line, behind a colon; or nothing."""
    said = " ".join(str(error.response.get("Error", {}).get("Message") or "").split())
    return f": {said[:_MESSAGE_CHARACTERS]}" if said else ""


def _tls_fix(error: Exception) -> str:
    """Return how to mend what keeps TLS from coming about; empty if that is not the trouble."""
    cause = error.kwargs.get("error") if isinstance(error, NoTls) else error
    if isinstance(cause, ClientConnectorCertificateError):
        return _CERTIFICATE_FIX
    if isinstance(cause, ClientConnectorSSLError):
        reason = cause.os_error.reason if isinstance(cause.os_error, ssl.SSLError) else ""
        return _NO_TLS_FIX if reason in _NO_TLS_REASONS else ""
    return ""
