"""Delegation tokens (KIP-48), which this broker does not give.

As in Apache Kafka a client that has not authenticated itself is told so: a token stands for a user.
Others are told that tokens are disabled.
"""

import datetime as dt
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from broker.network.client_session import ANONYMOUS, ClientSession

PRINCIPAL_TYPE: Final = "User"


class TokenRefusal(NamedTuple):
    """Why there is no token.

    Attributes:
        time: what stands for the times of one.
    """

    code: ErrorCode
    time: dt.datetime


_NOT_ALLOWED: Final = TokenRefusal(
    ErrorCode.delegation_token_request_not_allowed,
    dt.datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=dt.UTC),  # -1 on the wire
)
_DISABLED: Final = TokenRefusal(
    ErrorCode.delegation_token_auth_disabled, dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
)


def token_refusal(session: ClientSession) -> TokenRefusal:
    """Return what a client is told."""
    return _NOT_ALLOWED if session.principal == ANONYMOUS else _DISABLED
