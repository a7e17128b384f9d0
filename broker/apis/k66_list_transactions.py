"""ListTransactions: v0-2 (KIP-664). v1 running for longer than (KIP-994), v2 a pattern (KIP-1152).

Tools ask all brokers and put the answers together: each lists the transactional ids that it
coordinates, so that none is listed twice. Filters all apply; an empty one lets everything pass.
Unlike Kafka, which takes its own -1 for a start, an id without an open transaction has not been
running for any time. A pattern is RE2, and matches a whole id; it is looked at last, since it may
cost more than all else.

ACLs: only transactional ids with DESCRIBE are listed.

If Postgres does not answer it is COORDINATOR_LOAD_IN_PROGRESS: admin clients repeat no other code.
"""

from collections.abc import Callable
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.refusals import Refusal
from broker.requests import NOT_THROTTLED, Request
from coordinator.subscriptions import InvalidPattern, compile_pattern
from protocol.acl import ResourceType
from storage.errors import MetadataUnavailable
from storage.metadata.transactions import TransactionListing, TransactionState

_STATES: Final = frozenset(state.value for state in TransactionState) | {
    "PrepareCommit",  # Kafka's other states: never seen here, but no mistake to ask for
    "PrepareAbort",
    "PrepareEpochFence",
    "Dead",
}

Filter = Callable[[TransactionListing], object]
"""Tells by its truth whether an id is listed."""


async def handle(request: Request) -> Payload:
    """List what passes all filters."""
    body = request.decode()
    filters = _filters(request, body)
    types = request.types
    try:
        listed = [
            types.TransactionState(
                transactional_id=one.transactional_id,
                producer_id=one.producer_id,
                transaction_state=one.state.value,
            )
            async for one in request.services.metadata.list_transactions()
            if all(passes(one) for passes in filters)
        ]
    except MetadataUnavailable as unavailable:
        raise Refusal(ErrorCode.coordinator_load_in_progress, str(unavailable)) from unavailable
    response: Payload = types.ListTransactionsResponse(
        throttle_time=NOT_THROTTLED,
        error_code=ErrorCode.none,
        unknown_state_filters=tuple(one for one in body.state_filters if one not in _STATES),
        transaction_states=tuple(listed),
    )
    return response


def _filters(request: Request, body: Any) -> list[Filter]:
    """Return the filters of a request, those that cost little first.

    Raises:
        Refusal: INVALID_REGULAR_EXPRESSION.
    """
    filters: list[Filter] = []
    if body.state_filters:
        states = frozenset(body.state_filters)
        filters.append(lambda one: one.state.value in states)
    if body.producer_id_filters:
        producer_ids = frozenset(body.producer_id_filters)
        filters.append(lambda one: one.producer_id in producer_ids)
    duration_ms = getattr(body, "duration_filter", -1)
    if duration_ms >= 0:
        filters.append(lambda one: one.running_ms > duration_ms)
    coordinates = request.services.cluster.brokers.coordinates
    filters.append(lambda one: coordinates(one.transactional_id))
    filters.append(lambda one: request.shows(ResourceType.TRANSACTIONAL_ID, one.transactional_id))
    if text := getattr(body, "transactional_id_pattern", None):
        filters.append(_matching(text))
    return filters


def _matching(text: str) -> Filter:
    try:
        pattern = compile_pattern(text)
    except InvalidPattern as invalid:
        code = ErrorCode.invalid_regular_expression
        raise Refusal(code, f"{text!r} is no pattern: {invalid}") from invalid
    return lambda one: pattern.fullmatch(one.transactional_id)
