"""AddPartitionsToTxn: v0-5.

v2 PRODUCER_FENCED (KIP-588), v3 flexible, v4 several transactions, and a mere look if these have
the partitions (KIP-890), v5 TRANSACTION_ABORTABLE if they do not (here in v4, too).

Clients use v0-3; from v4 on it is how Kafka's brokers ask each other. All partitions of a
transaction are added, or none.

ACLs: v0-3 WRITE on the transactional id and on each topic; v4 and later CLUSTER_ACTION.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.groups.offset_requests import AskedTopic, look_up_topics
from broker.refusals import Refusal, coordinating
from broker.requests import NOT_THROTTLED, Request
from broker.transactions.transaction_requests import code_of_verdict, named_producer
from protocol.acl import Operation, ResourceType
from protocol.ids import Partition
from storage.metadata.transactions import Producer, Verdict

_FIRST_TO_SAY_FENCED: Final = 2
_FIRST_OF_SEVERAL: Final = 4

Codes = Mapping[Partition, ErrorCode] | ErrorCode
"""What answers each partition that exists, or all of them."""


async def handle(request: Request) -> Payload:
    """Add partitions to each transaction; each answers for itself."""
    body, types = request.decode(), request.types
    if request.version < _FIRST_OF_SEVERAL:
        who = (
            body.v3_and_below_transactional_id,
            body.v3_and_below_producer_id,
            body.v3_and_below_producer_epoch,
        )
        results = await _results(request, who, body.v3_and_below_topics, verify_only=False)
        response: Payload = types.AddPartitionsToTxnResponse(
            throttle_time=NOT_THROTTLED, results_by_topic_v3_and_below=results
        )
        return response
    request.authorize(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
    by_transaction = []
    for each in body.transactions:
        who = (each.transactional_id, each.producer_id, each.producer_epoch)
        results = await _results(request, who, each.topics, verify_only=each.verify_only)
        by_transaction.append(
            types.AddPartitionsToTxnResult(
                transactional_id=each.transactional_id, topic_results=results
            )
        )
    several: Payload = types.AddPartitionsToTxnResponse(
        throttle_time=NOT_THROTTLED,
        error_code=ErrorCode.none,
        results_by_transaction=tuple(by_transaction),
    )
    return several


async def _results(
    request: Request, who: tuple[str, int, int], asked: Sequence[Any], *, verify_only: bool
) -> tuple[Any, ...]:
    """Do what is asked for one transaction; return its results by topic."""
    from_client = request.version < _FIRST_OF_SEVERAL
    try:
        if from_client:
            request.authorize(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, who[0])
        producer = named_producer(*who)
        with coordinating():
            operation = Operation.WRITE if from_client else None
            topics = await look_up_topics(request, asked, operation)
            codes = await _codes(request, producer, topics, verify_only=verify_only)
            if codes is ErrorCode.unknown_topic_or_partition:  # deleted, or made again, elsewhere
                await request.services.topics.look_again()
                topics = await look_up_topics(request, asked, operation)
                codes = await _codes(request, producer, topics, verify_only=verify_only)
    except Refusal as refusal:
        return await request.aside(_refused, request, asked, refusal.code)
    return await request.aside(_answered, request, topics, codes)


async def _codes(
    request: Request, producer: Producer, topics: Sequence[AskedTopic], *, verify_only: bool
) -> Codes:
    partitions = await request.aside(_partitions, topics)
    if partitions is None:
        return ErrorCode.operation_not_attempted
    if not partitions:
        return ErrorCode.none
    says_fenced = request.version >= _FIRST_TO_SAY_FENCED
    transactions = request.services.transactions
    if not verify_only:
        verdict = await transactions.add(producer, partitions)
        return code_of_verdict(verdict, says_fenced=says_fenced)
    added = await transactions.open_partitions(producer)
    if isinstance(added, Verdict):
        return code_of_verdict(added, says_fenced=says_fenced)
    return await request.aside(_verified, partitions, added)


def _partitions(topics: Iterable[AskedTopic]) -> list[Partition] | None:
    """Return each of them once; None if there is one that cannot be added."""
    found: dict[Partition, None] = {}
    for topic in topics:
        for line in _lines(topic):
            if not isinstance(line, Partition):
                return None
            found[line] = None
    return list(found)


def _verified(partitions: Iterable[Partition], added: Container[Partition]) -> Codes:
    return {
        one: ErrorCode.none if one in added else ErrorCode.transaction_abortable
        for one in partitions
    }


def _lines(topic: AskedTopic) -> Iterable[Partition | ErrorCode]:
    return (topic.partition(index) for index in topic.asked.partitions)


def _refused(request: Request, asked: Iterable[Any], code: ErrorCode) -> tuple[Any, ...]:
    """Answer all alike, for nobody knows which of them exist."""
    topics = [AskedTopic(one, None) for one in asked]
    return _topic_results(request, topics, lambda _: code)


def _answered(request: Request, topics: Iterable[AskedTopic], codes: Codes) -> tuple[Any, ...]:
    def code_of(line: Partition | ErrorCode) -> ErrorCode:
        if isinstance(line, ErrorCode):
            return line
        return codes if isinstance(codes, ErrorCode) else codes[line]

    return _topic_results(request, topics, code_of)


def _topic_results(
    request: Request,
    topics: Iterable[AskedTopic],
    code_of: Callable[[Partition | ErrorCode], ErrorCode],
) -> tuple[Any, ...]:
    types = request.types
    return tuple(
        types.AddPartitionsToTxnTopicResult(
            name=topic.asked.name,
            results_by_partition=tuple(
                types.AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=code_of(line)
                )
                for index, line in zip(topic.asked.partitions, _lines(topic), strict=True)
            ),
        )
        for topic in topics
    )
