"""Delegation tokens (KIP-48), which this broker does not give.

As in Apache Kafka a client that has not authenticated itself is told so: a token stands for a user.
"""

import datetime as dt
from typing import Final

from kio.schema.errors import ErrorCode

REFUSAL: Final = ErrorCode.delegation_token_request_not_allowed
PRINCIPAL_TYPE: Final = "User"
PRINCIPAL: Final = "ANONYMOUS"
"""Who asks, if nobody has said who it is."""

NEVER: Final = dt.datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=dt.UTC)
"""-1 on the wire."""
