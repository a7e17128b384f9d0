"""DescribeTransactions: v0 (KIP-664). Any broker answers for any transactional id.

Unlike Kafka's, the answer has no partitions of __consumer_offsets: a group that takes part is kept
as such (storage/transactions.py).
"""

import datetime as dt
from collections.abc import Iterable
from itertools import groupby
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.primitive import i32Timedelta
from kio.static.protocol import Payload

from broker.refusals import Refusal
from broker.requests import NOT_THROTTLED, Request
from broker.transaction_requests import coordinating
from protocol.ids import Partition
from storage.transactions import TransactionRecord

_EPOCH: Final = dt.datetime.fromtimestamp(0, dt.UTC)


async def handle(request: Request) -> Payload:
    """Describe each id; one that cannot be answers for itself."""
    body = request.decode()
    answered = []
    try:
        with coordinating():
            named = [one for one in dict.fromkeys(body.transactional_ids) if one]
            found = await request.services.metadata.find_transactions(named)
            records = {one.producer.transactional_id: one for one in found}
            for transactional_id in body.transactional_ids:
                record = records.get(transactional_id)
                answered.append(
                    _missing(request, transactional_id)
                    if record is None
                    else await _described(request, record)
                )
    except Refusal as refusal:
        answered = [_refused(request, one, refusal.code) for one in body.transactional_ids]
    response: Payload = request.types.DescribeTransactionsResponse(
        throttle_time=NOT_THROTTLED, transaction_states=tuple(answered)
    )
    return response


async def _described(request: Request, record: TransactionRecord) -> Any:
    return request.types.TransactionState(
        error_code=ErrorCode.none,
        transactional_id=record.producer.transactional_id,
        transaction_state=record.state.value,
        transaction_timeout=_milliseconds(record.timeout_ms),
        transaction_start_time=_EPOCH + dt.timedelta(milliseconds=record.started_ms),
        producer_id=record.producer.producer_id,
        producer_epoch=record.producer.producer_epoch,
        topics=await _topics(request, record.partitions),
    )


async def _topics(request: Request, partitions: Iterable[Partition]) -> tuple[Any, ...]:
    """Return the partitions by topic; a topic that has just been deleted is not shown."""
    topics = []
    for topic_id, found in groupby(partitions, key=lambda one: one.topic_id):
        known = await request.services.topics.find(topic_id=topic_id)
        if known is not None:
            indexes = tuple(one.index for one in found)
            topics.append(request.types.TopicData(topic=known.topic.name, partitions=indexes))
    return tuple(topics)


def _missing(request: Request, transactional_id: str) -> Any:
    named = bool(transactional_id)
    code = ErrorCode.transactional_id_not_found if named else ErrorCode.invalid_request
    return _refused(request, transactional_id, code)


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
