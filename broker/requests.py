"""One request, as its handler gets it."""

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from kio.static.primitive import i32Timedelta

from broker.client_session import ClientSession
from broker.quota_use import QuotaUse
from broker.services import Services
from protocol.codec import RequestHeader, ResponseTypes, request_type, response_types
from protocol.guard import decode_request

NOT_THROTTLED: Final = i32Timedelta.parse(dt.timedelta(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request frame, its header, and what the broker offers to answer it.

    Attributes:
        frame: header and body; the body begins at byte header.body.
        peer: the client's address and port.
        session: what lasts as long as its connection.
        give_back: see `forget_frame`.
        quota: what counts it towards its client's quotas; None where nothing limits the client.
    """

    header: RequestHeader
    frame: bytearray
    services: Services
    peer: str
    session: ClientSession
    give_back: Callable[[], None]
    quota: QuotaUse | None = None

    @property
    def version(self) -> int:
        return self.header.api_version

    @property
    def types(self) -> ResponseTypes:
        """The response classes of this version."""
        return response_types(self.header.api_key, self.header.api_version)

    def decode(self) -> Any:
        """Return the typed body.

        Raises:
            MalformedRequest: it does not follow the schema of its version.
        """
        kind = request_type(self.header.api_key, self.header.api_version)
        return decode_request(kind, self.frame, self.header.body)

    def forget_frame(self) -> None:
        """Let go of the frame, which is decoded: this request may wait for other clients."""
        self.frame.clear()
        self.give_back()
