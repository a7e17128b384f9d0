"""What the APIs of groups have in common."""

import datetime as dt
from collections.abc import AsyncIterator, Awaitable, Iterable
from typing import Final, TypeVar

from kio.schema.errors import ErrorCode

from broker.gradual import Gradually
from broker.refusals import Refusal
from broker.requests import Request

MAX_JOIN_BYTES: Final = 1024 * 1024
MAX_JOIN_PROTOCOLS: Final = 100
MAX_SYNC_BYTES: Final = 16 * 1024 * 1024
"""What a member may say of itself, and a leader of all: kept for as long as the group has them."""

T = TypeVar("T")


def named_group(group_id: str) -> str:
    """Return the id of a group that can have members.

    Raises:
        Refusal: INVALID_GROUP_ID: only committed offsets may belong to the group without a name.
    """
    if not group_id:
        raise Refusal(ErrorCode.invalid_group_id)
    return group_id


def check_size(request: Request, most_bytes: int) -> None:
    """Check a request that is kept while it waits for other members.

    Raises:
        Refusal: INVALID_REQUEST: it is too large. Kafka keeps whatever fits into a record.
    """
    if len(request.frame) > most_bytes:
        message = f"A request of {len(request.frame)} bytes; at most {most_bytes}."
        raise Refusal(ErrorCode.invalid_request, message)


def client_host(request: Request) -> str:
    """Return the client's address as Kafka's tools show it."""
    return f"/{request.peer.rpartition(':')[0]}"


def host_of(client_host: str) -> str:
    """Return the address that `client_host` shows."""
    return client_host.removeprefix("/")


def milliseconds(span: dt.timedelta) -> int:
    return span // dt.timedelta(milliseconds=1)


async def outcome_of(answer: Awaitable[T]) -> T | ErrorCode:
    """Return an answer, or the code of its refusal, for what answers for itself in a request."""
    try:
        return await answer
    except Refusal as refusal:
        return refusal.code


async def outcomes(
    asked: Iterable[tuple[str, Awaitable[T] | ErrorCode]],
) -> AsyncIterator[tuple[str, T | ErrorCode]]:
    """Yield for each group its answer or its code, as they are asked for in one request."""
    async for group_id, one in Gradually().each(asked):
        yield group_id, one if isinstance(one, ErrorCode) else await outcome_of(one)
