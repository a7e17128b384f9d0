"""Produce: v3-13. v7 zstd, v8 record errors (KIP-467), v9 flexible, v10 leaders, v13 topic ids.

ACLs: WRITE on each topic, else TOPIC_AUTHORIZATION_FAILED; WRITE on the transactional id of a batch
of a transaction, else all of the request is TRANSACTIONAL_ID_AUTHORIZATION_FAILED.

A batch of a transaction is for partitions that are part of it; from v12 on it makes its partition
part of it (KIP-890). If it is not, v11 and later hear TRANSACTION_ABORTABLE, which lets a client go
on after an abort.

acks=1 and acks=all are answered when the records are durable and committed (D7); acks=0 is never
answered, an error then closes the connection. A partition answers for itself. Where schemas are
validated, a batch may wait for the registry while the requests behind it begin (later_appends.py).
Who asks another than the leader is told where that is (KIP-951). A batch is refused whole, with a
message; records that need a key and have none are named, others that are at fault are not.
"""

import asyncio
from typing import Final

from kio.schema.errors import ErrorCode

from broker.batch_checks import (
    check_header,
    check_keys,
    check_transactional,
    correct_timestamp_type,
    with_max_timestamp,
)
from broker.cluster import LOG_EPOCH
from broker.network.answer_when import AnswerWhen
from broker.produce_answers import Appended, Results, answer_later, refuse, refuse_for_bug
from broker.refusals import CONDITIONS, Refusal, unknown_topic
from broker.requests import Request
from broker.security.topic_access import find_topic
from broker.topics import KnownTopic
from protocol.acl import Operation, ResourceType
from protocol.batch import (
    HEADER_BYTES,
    read_header,
    says_transactional,
    set_leader_epoch,
    stamp_log_append_time,
    verify_produced,
)
from protocol.errors import InvalidRecords
from protocol.ids import Partition
from protocol.produce import ProduceRequest, TopicData, decode_produce
from protocol.produce_response import PartitionResult
from storage.errors import MetadataUnavailable
from storage.metadata.port import BatchOutcome, TransactionUse
from storage.partition_log import PartitionLog

API_KEY: Final = 0
OLDEST: Final = 3
_ACKS: Final = (-1, 0, 1)


async def handle(request: Request) -> AnswerWhen:
    """Append what can be appended; the answer waits for the commits."""
    produce = decode_produce(request.frame, request.header.body, request.header.api_version)
    results: Results = []
    appended: list[Appended] = []
    later_appends = request.services.schemas.appends
    if request.services.authorizer.enabled and not _may_write_transaction(request, produce):
        return answer_later(request, produce, _without_transaction(produce), appended)
    for data in produce.topics:
        found, refusal = await _find(request, data)
        of_topic: list[PartitionResult] = []
        for index, batch in data.partitions:
            result = PartitionResult(index)
            of_topic.append(result)
            if refusal is not None:
                refuse(result, refusal)  # raised here, it and these frames would hold each other
                continue
            try:
                topic = _checked(produce, found, data)
                if topic.config.validates_schemas or (
                    later_appends.last
                    and later_appends.waiting(request.peer, topic.topic.topic_id, index)
                ):
                    appended.append(_append_later(request, produce, topic, batch, result))
                else:
                    appended.append(await _append(request, produce, topic, batch, result))
            except CONDITIONS as condition:
                refuse(result, condition)
            except Exception as error:  # noqa: BLE001 (told of there)
                refuse_for_bug(request, result, error)
        results.append((data, of_topic))
    return answer_later(request, produce, results, appended)


def _may_write_transaction(request: Request, produce: ProduceRequest) -> bool:
    """Whether the client may write batches of a transaction, if there are any."""
    if not any(
        batch is not None and says_transactional(batch)
        for data in produce.topics
        for _, batch in data.partitions
    ):
        return True
    return produce.transactional_id is not None and request.allows(
        Operation.WRITE, ResourceType.TRANSACTIONAL_ID, produce.transactional_id
    )


def _without_transaction(produce: ProduceRequest) -> Results:
    code = ErrorCode.transactional_id_authorization_failed
    return [
        (data, [PartitionResult(index, code) for index, _ in data.partitions])
        for data in produce.topics
    ]


async def _find(
    request: Request, data: TopicData
) -> tuple[KnownTopic | None, MetadataUnavailable | Refusal | None]:
    """Return the topic; or, if nobody can say whether there is one or may know, what to tell."""
    try:
        if request.services.authorizer.enabled:
            return await find_topic(request, Operation.WRITE, data.name, data.topic_id), None
        return await request.services.topics.find(data.name, data.topic_id), None
    except (MetadataUnavailable, Refusal) as refusal:
        return None, refusal


def _checked(produce: ProduceRequest, topic: KnownTopic | None, data: TopicData) -> KnownTopic:
    """Return the topic, or refuse the request for it."""
    if produce.acks not in _ACKS:
        raise Refusal(ErrorCode.invalid_required_acks, f"acks is -1, 0 or 1, not {produce.acks}")
    if topic is None:
        raise Refusal(unknown_topic(data.topic_id))
    return topic


def _append_later(
    request: Request,
    produce: ProduceRequest,
    topic: KnownTopic,
    batch: memoryview | None,
    result: PartitionResult,
) -> Appended:
    """Let the connection's next requests begin before the batch is in the write buffer."""

    async def append() -> asyncio.Future[BatchOutcome]:
        placed = await _append(request, produce, topic, batch, result)
        placed_later.transaction, placed_later.log = placed.transaction, placed.log
        return placed.outcome

    partition = Partition(topic.topic.topic_id, result.index)
    outcome = request.services.schemas.appends.begin(request.peer, partition, append)
    placed_later = Appended(result, outcome, TransactionUse.NONE, None)
    return placed_later


async def _append(
    request: Request,
    produce: ProduceRequest,
    topic: KnownTopic,
    batch: memoryview | None,
    result: PartitionResult,
) -> Appended:
    partition_log = topic.log(result.index)
    if partition_log is None:
        partition_log = await _find_added(request, topic, result.index)
    leader_epoch = request.services.cluster.generation
    if not request.services.cluster.serves(partition_log.partition):
        raise _of_another_leader(request, partition_log, batch)
    if batch is None or len(batch) == 0:
        raise InvalidRecords("no record batch")
    if len(batch) > topic.config.max_message_bytes:
        limit = topic.config.max_message_bytes
        raise Refusal(
            ErrorCode.message_too_large, f"batch of {len(batch)} bytes; max.message.bytes={limit}"
        )
    header = verify_produced(batch)
    check_header(request, topic, header)
    correct_timestamp_type(topic, batch, header)
    if header.max_timestamp_ms < header.base_timestamp_ms and not topic.config.log_append_time:
        header = await with_max_timestamp(request, topic, batch, header)
    transaction = TransactionUse.NONE
    if header.is_transactional:
        transaction = check_transactional(request, produce, header)
    if topic.config.compact:
        await check_keys(request, batch)
    if topic.config.validates_schemas:
        await request.services.schemas.check(topic, batch, request.peer)
    if topic.config.log_append_time:
        result.log_append_time_ms = request.services.now_ms()
        stamp_log_append_time(batch, result.log_append_time_ms)
        header = header._replace(max_timestamp_ms=result.log_append_time_ms)
    set_leader_epoch(batch, LOG_EPOCH)
    outcome = request.services.log.append(
        partition_log,
        batch,
        header,
        transaction=transaction,
        transactional_id=produce.transactional_id,
        leader_epoch=leader_epoch,
        client_id=request.header.client_id,
    )
    return Appended(result, outcome, transaction, partition_log)


async def _find_added(request: Request, topic: KnownTopic, index: int) -> PartitionLog:
    """Return the log of a partition that another broker may just have added, or refuse it."""
    log = await request.services.topics.added_log(topic, index)
    if log is None:
        raise Refusal(ErrorCode.unknown_topic_or_partition)
    return log


def _of_another_leader(
    request: Request, partition_log: PartitionLog, batch: memoryview | None
) -> Refusal:
    """Return how a batch is refused; what comes behind it may be for this broker again."""
    if batch is not None and len(batch) >= HEADER_BYTES:
        request.services.log.note_refused(partition_log, read_header(batch))
    return Refusal(ErrorCode.not_leader_or_follower)
