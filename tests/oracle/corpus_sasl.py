"""SASL on a listener without it: there is nothing to log in to.

What a listener with SASL does is in tests/broker/security/test_sasl_handshake.py.
"""

from typing import Final

from tests.oracle.wire_cases import ask, case
from tests.oracle.wire_values import NULL

HANDSHAKE: Final = 17
AUTHENTICATE: Final = 36

CASES: Final = (
    case(HANDSHAKE, "a mechanism", ask(HANDSHAKE, mechanism="PLAIN")),
    case(HANDSHAKE, "an unknown mechanism", ask(HANDSHAKE, mechanism="NONE-SUCH")),
    case(HANDSHAKE, "without a mechanism", ask(HANDSHAKE, mechanism="")),
    case(HANDSHAKE, "null mechanism", ask(HANDSHAKE, mechanism=NULL)),
    case(
        HANDSHAKE,
        "again and again",
        ask(HANDSHAKE, mechanism="PLAIN"),
        ask(AUTHENTICATE, auth_bytes=b"\0alice\0secret"),
        ask(HANDSHAKE, mechanism="SCRAM-SHA-256"),
    ),
    case(AUTHENTICATE, "a password", ask(AUTHENTICATE, auth_bytes=b"\0alice\0secret")),
    case(AUTHENTICATE, "nothing", ask(AUTHENTICATE, auth_bytes=b"")),
    case(AUTHENTICATE, "null message", ask(AUTHENTICATE, auth_bytes=NULL)),
)
