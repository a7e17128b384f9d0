"""What a failed TLS handshake is called in metrics and the log."""

import ssl
from enum import StrEnum
from typing import Final


class HandshakeFailure(StrEnum):
    """Why a handshake came to nothing; the values are a metric's labels.

    Attributes:
        NOT_TLS: the client speaks something else.
        NO_CERTIFICATE: ssl.client.auth=required, and it has shown none.
        EXPIRED, NOT_YET_VALID: its certificate, or one of those above it, today.
        UNTRUSTED: its certificate cannot be verified for another reason.
        REFUSED_BY_CLIENT: it sent an alert; mostly it does not trust the broker's certificate.
        VERSION, CIPHER: there is none that both allow.
        PROTOCOL: it broke the rules of TLS.
        DISCONNECTED: it went away.
        TIMED_OUT: it took too long.
    """

    NOT_TLS = "not_tls"
    NO_CERTIFICATE = "no_certificate"
    EXPIRED = "expired"
    NOT_YET_VALID = "not_yet_valid"
    UNTRUSTED = "untrusted"
    REFUSED_BY_CLIENT = "refused_by_client"
    VERSION = "version"
    CIPHER = "cipher"
    PROTOCOL = "protocol"
    DISCONNECTED = "disconnected"
    TIMED_OUT = "timed_out"


_VERIFICATION: Final = {9: HandshakeFailure.NOT_YET_VALID, 10: HandshakeFailure.EXPIRED}
"""By OpenSSL's X509_V_ERR codes."""

_REASONS: Final = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": HandshakeFailure.NO_CERTIFICATE,
    "UNSUPPORTED_PROTOCOL": HandshakeFailure.VERSION,
    "VERSION_TOO_LOW": HandshakeFailure.VERSION,
    "WRONG_VERSION_NUMBER": HandshakeFailure.VERSION,
    "NO_SHARED_CIPHER": HandshakeFailure.CIPHER,
    "NO_SUITABLE_KEY_SHARE": HandshakeFailure.CIPHER,
    "NO_SUITABLE_SIGNATURE_ALGORITHM": HandshakeFailure.CIPHER,
    "NO_SHARED_SIGNATURE_ALGORITHMS": HandshakeFailure.CIPHER,
    "NO_SHARED_GROUPS": HandshakeFailure.CIPHER,
}


def failure_of(error: ssl.SSLError) -> HandshakeFailure:
    """Return what OpenSSL's error amounts to."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _VERIFICATION.get(error.verify_code, HandshakeFailure.UNTRUSTED)
    reason = error.reason or ""
    if "_ALERT_" in reason:
        return HandshakeFailure.REFUSED_BY_CLIENT
    return _REASONS.get(reason, HandshakeFailure.PROTOCOL)


def describe(error: ssl.SSLError) -> str:
    """Return OpenSSL's words for it, without the place in its source."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate: {error.verify_message}"
    return (error.reason or "unknown").replace("_", " ").lower()
