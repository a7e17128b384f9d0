"""One request, as its handler gets it."""

import asyncio
import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import structlog
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map
from kio.static.primitive import i32Timedelta

from broker.network.client_session import ClientSession
from broker.network.refused_connections import CloseConnection
from broker.quotas.quota_use import QuotaUse
from broker.refusals import Refusal
from broker.services import Services
from protocol.acl import CLUSTER_NAME, Operation, ResourceType
from protocol.codec import RequestHeader, ResponseTypes, request_type, response_types
from protocol.entity_parts import AT_ONCE
from protocol.guard import decode_request, decode_walked
from protocol.walk import Walk

Result = TypeVar("Result")

log = structlog.get_logger()

NOT_THROTTLED: Final = i32Timedelta.parse(dt.timedelta(0))

DENIED: Final = {
    ResourceType.TOPIC: ErrorCode.topic_authorization_failed,
    ResourceType.GROUP: ErrorCode.group_authorization_failed,
    ResourceType.CLUSTER: ErrorCode.cluster_authorization_failed,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.transactional_id_authorization_failed,
    ResourceType.DELEGATION_TOKEN: ErrorCode.delegation_token_authorization_failed,
}
"""What a client hears that ACLs do not let do something with a resource."""

DENIED_MESSAGE: Final = "Not authorized."

LARGE_BYTES: Final = 16 * 1024
"""A larger request may have enough in it to keep the event loop for long."""


@dataclass(slots=True, kw_only=True)
class Request:
    """A request frame, its header, and what the broker offers to answer it.

    Nobody changes it; it is not frozen because to make one would take three times as long.

    Attributes:
        frame: header and body; the body begins at byte header.body.
        peer: the client's address and port.
        session: what lasts as long as its connection.
        give_back: see `forget_frame`.
        quota: what counts it towards its client's quotas; None where nothing limits the client.
        body: what is decoded already, of a large request.
    """

    header: RequestHeader
    frame: bytearray
    services: Services
    peer: str
    session: ClientSession
    give_back: Callable[[], None]
    quota: QuotaUse | None = None
    body: Any = None

    @property
    def version(self) -> int:
        return self.header.api_version

    @property
    def api_name(self) -> str:
        return api_key_map[self.header.api_key]

    @property
    def types(self) -> ResponseTypes:
        """The response classes of this version."""
        return response_types(self.header.api_key, self.header.api_version)

    def decode(self) -> Any:
        """Return the typed body.

        Raises:
            RequestTooLarge: it is to be decoded part by part (broker/large_requests.py).
            MalformedRequest: it does not follow the schema of its version.
        """
        if self.body is not None:
            return self.body
        kind = request_type(self.header.api_key, self.header.api_version)
        if len(self.frame) <= LARGE_BYTES:
            return decode_request(kind, self.frame, self.header.body)
        walk = Walk(body=self.frame, end=len(self.frame), elements_left=AT_ONCE)
        return decode_walked(kind, walk, self.header.body)[0]

    async def aside(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Return what `work` returns, which changes nothing; of a large request a thread does it.

        That leaves other requests their turns, where `work` goes through all that this one names.
        """
        if len(self.frame) <= LARGE_BYTES:
            return work(*arguments)
        return await asyncio.to_thread(work, *arguments)

    def mutate(self, partition_count: int, *, refused_from: int) -> None:
        """Count partitions that are created or deleted, or only asked about, towards a quota.

        Args:
            partition_count: of one topic.
            refused_from: the first version whose clients know THROTTLING_QUOTA_EXCEEDED (KIP-599).

        Raises:
            Refusal: THROTTLING_QUOTA_EXCEEDED.
        """
        if self.quota is not None:
            self.quota.mutate(partition_count, strict=self.version >= refused_from)

    def allows(
        self,
        operation: Operation,
        resource_type: ResourceType,
        name: str = CLUSTER_NAME,
        *,
        audit: bool = True,
    ) -> bool:
        """Whether ACLs let the client do that.

        A denial is worth a line in the audit log, if `audit`: not where a resource that is not
        allowed is only left out of a list.
        """
        services = self.services
        if not services.authorizer.enabled:
            return True
        is_allowed = services.authorizer.allows(self.session, operation, resource_type, name)
        if audit and not is_allowed:
            services.audit.denied(
                *(self.session, operation, resource_type, name),
                api=self.api_name,
                client_id=self.header.client_id,
            )
        return is_allowed

    def shows(self, resource_type: ResourceType, name: str) -> bool:
        """Whether ACLs let the client see that in a list that may be of any length."""
        return self.services.authorizer.shows(self.session, resource_type, name)

    def authorize(
        self, operation: Operation, resource_type: ResourceType, name: str = CLUSTER_NAME
    ) -> None:
        """Check that ACLs let the client do that.

        Raises:
            Refusal: the code of the resource's type, such as TOPIC_AUTHORIZATION_FAILED. Nothing
                tells whether there is such a resource.
        """
        if not self.allows(operation, resource_type, name):
            raise Refusal(DENIED[resource_type], DENIED_MESSAGE)

    def count_errors(self, codes: Iterable[int]) -> None:
        """Take note of codes within the answer: dispatch knows only of those of whole requests."""
        for code, count in Counter(codes).items():
            self.services.count_error(self.api_name, ErrorCode(code).name, count)

    def log_bug(self, error: BaseException, **where: object) -> None:
        """Tell of what nobody expects: it costs this request, or `where` in it, not the broker."""
        log.error(
            "bug in a handler",
            api=self.api_name,
            version=self.version,
            client_id=self.header.client_id,
            peer=self.peer,
            exc_info=error,
            **where,
        )

    def check_is_awaited(self) -> None:
        """Begin nothing more for who is gone: who comes back would wait behind that.

        Raises:
            CloseConnection: its connection has ended.
        """
        if self.session.ended:
            raise CloseConnection("gone before it was answered")

    def forget_frame(self) -> None:
        """Let go of the frame, which is decoded: this request may wait for other clients."""
        self.frame.clear()
        self.give_back()
