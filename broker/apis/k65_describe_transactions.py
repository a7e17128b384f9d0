"""DescribeTransactions: v0 (KIP-664). Any broker answers for any transactional id.

Unlike Kafka's, the answer has no partitions of __consumer_offsets: a group that takes part is kept
as such (storage/metadata/transactions.py).

ACLs: DESCRIBE on each transactional id; topics without DESCRIBE are left out.
"""

import datetime as dt
from collections.abc import Iterable
from itertools import groupby
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.primitive import i32Timedelta
from kio.static.protocol import Payload

from broker.gradual import Gradually
from broker.refusals import Refusal, coordinating
from broker.requests import NOT_THROTTLED, Request
from protocol.acl import Operation, ResourceType
from protocol.ids import Partition
from storage.metadata.transactions import TransactionRecord

ASKED_AT_ONCE: Final = 200
"""Ids in a query: each may have a transaction with thousands of partitions."""

_EPOCH: Final = dt.datetime.fromtimestamp(0, dt.UTC)


async def handle(request: Request) -> Payload:
    """Describe each id once; one that cannot be answers for itself."""
    gradually = Gradually()
    allowed = {
        one: request.allows(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, one)
        async for one in gradually.each(request.decode().transactional_ids)
    }
    named = [one for one, is_allowed in allowed.items() if one and is_allowed]
    described: dict[str, Any] = {}
    failure: ErrorCode | None = None
    try:
        with coordinating():
            for start in range(0, len(named), ASKED_AT_ONCE):
                request.check_is_awaited()
                piece = named[start : start + ASKED_AT_ONCE]
                for record in await request.services.metadata.find_transactions(piece):
                    state = await _described(request, record, gradually)
                    described[record.producer.transactional_id] = state
    except Refusal as refusal:
        described, failure = {}, refusal.code
    denied = ErrorCode.transactional_id_authorization_failed
    answered = await gradually.made(
        described.get(one)
        or _refused(request, one, (failure or _missing_code(one)) if allowed[one] else denied)
        for one in allowed
    )
    response: Payload = request.types.DescribeTransactionsResponse(
        throttle_time=NOT_THROTTLED, transaction_states=answered
    )
    return response


async def _described(request: Request, record: TransactionRecord, gradually: Gradually) -> Any:
    return request.types.TransactionState(
        error_code=ErrorCode.none,
        transactional_id=record.producer.transactional_id,
        transaction_state=record.state.value,
        transaction_timeout=_milliseconds(record.timeout_ms),
        transaction_start_time=_EPOCH + dt.timedelta(milliseconds=record.started_ms),
        producer_id=record.producer.producer_id,
        producer_epoch=record.producer.producer_epoch,
        topics=await _topics(request, record.partitions, gradually),
    )


async def _topics(
    request: Request, partitions: Iterable[Partition], gradually: Gradually
) -> tuple[Any, ...]:
    """Return the partitions by topic, of topics that the client may know of and that exist."""
    topics = []
    for topic_id, found in groupby(partitions, key=lambda one: one.topic_id):
        known = await request.services.topics.find(topic_id=topic_id)
        if known is not None and request.allows(
            Operation.DESCRIBE, ResourceType.TOPIC, known.topic.name, audit=False
        ):
            indexes = await gradually.made(one.index for one in found)
            topics.append(request.types.TopicData(topic=known.topic.name, partitions=indexes))
    return tuple(topics)


def _missing_code(transactional_id: str) -> ErrorCode:
    named = bool(transactional_id)
    return ErrorCode.transactional_id_not_found if named else ErrorCode.invalid_request


def _refused(request: Request, transactional_id: str, code: ErrorCode) -> Any:
    return request.types.TransactionState(
        error_code=code,
        transactional_id=transactional_id,
        transaction_state="",
        transaction_timeout=_milliseconds(0),
        transaction_start_time=_EPOCH,
        producer_id=0,
        producer_epoch=0,
        topics=(),
    )


def _milliseconds(value: int) -> i32Timedelta:
    return i32Timedelta.parse(dt.timedelta(milliseconds=value))
