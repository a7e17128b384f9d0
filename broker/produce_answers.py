"""What a Produce is told, once it is known what became of its batches (apis/k00_produce.py)."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker.cluster import CUT_OFF_PAUSE_S
from broker.leader_hints import name_leaders
from broker.network.answer_when import Answer, AnswerWhen
from broker.network.memory import REQUEST_BYTES, HeldMemory
from broker.network.refused_connections import CloseConnection
from broker.refusals import CONDITIONS, code_of
from broker.requests import Request
from protocol.batch import read_header
from protocol.errors import InvalidRecords
from protocol.metadata_response import BrokerAnswer
from protocol.produce import ProduceRequest, TopicData
from protocol.produce_response import FIRST_HINTED, NO_TIMESTAMP, PartitionResult, encode_produce
from storage.errors import InvalidTransactionState
from storage.metadata.port import BatchOutcome, TransactionUse
from storage.partition_log import PartitionLog

LEAST_TIMEOUT_MS: Final = 1000
_FIRST_ABORTABLE: Final = 11
_OF_OLD_NEWS: Final = frozenset(
    {ErrorCode.unknown_topic_or_partition, ErrorCode.not_leader_or_follower}
)
"""What a batch is told that comes for a topic which another broker has just made again."""

Results = list[tuple[TopicData, list[PartitionResult]]]
"""What each topic's partitions are told, in the order of the request."""


@dataclass(slots=True)
class Appended:
    """A batch in the write buffer, and the result that its outcome completes.

    Attributes:
        log: where it goes; None until that is known.
    """

    result: PartitionResult
    outcome: asyncio.Future[BatchOutcome]
    transaction: TransactionUse
    log: PartitionLog | None


def refuse(result: PartitionResult, condition: Exception) -> None:
    """Have a partition told why its batch is not taken."""
    result.error_code = code_of(condition)
    result.message = str(condition) or None
    if isinstance(condition, InvalidRecords):
        result.record_errors = condition.records
    result.log_append_time_ms = NO_TIMESTAMP


def refuse_for_bug(request: Request, result: PartitionResult, error: BaseException) -> None:
    """Have one partition pay for what nobody expects.

    Produce has no code for all of it: its connection would be closed, and the client would send
    the other partitions' batches again, which are in the log by then.
    """
    request.log_bug(error, partition=result.index)
    result.error_code = ErrorCode.unknown_server_error
    result.log_append_time_ms = NO_TIMESTAMP


def answer_later(
    request: Request, produce: ProduceRequest, results: Results, appended: list[Appended]
) -> AnswerWhen:
    """Return what answers the request once the outcomes of its batches are there, or in time.

    Args:
        request: not answered yet.
        produce: what it says.
        results: for all of its partitions; `refuse` was called for those that are refused.
        appended: those of them whose outcome is still to come.
    """
    # Kafka's timeout bounds replication, never the local append; a hasty one must not fail here.
    timeout_s = max(produce.timeout_ms, LEAST_TIMEOUT_MS) / 1000 if produce.acks else None
    outcomes: list[asyncio.Future[Any]] = [one.outcome for one in appended]
    if request.services.cluster.brokers.is_cut_off:
        outcomes.append(asyncio.ensure_future(asyncio.sleep(CUT_OFF_PAUSE_S)))
    return AnswerWhen(outcomes, timeout_s, partial(_answer, request, produce, results, appended))


def _answer(
    request: Request, produce: ProduceRequest, results: Results, appended: list[Appended]
) -> Answer:
    late: list[asyncio.Future[BatchOutcome]] = []
    for one in appended:
        if one.outcome.done():
            _complete(request, one)
        else:
            one.result.error_code = ErrorCode.request_timed_out
            late.append(one.outcome)
    if late:
        _hold_memory(request, late)
    refused = [
        (data, result) for data, of_topic in results for result in of_topic if result.error_code
    ]
    if refused:
        codes = [result.error_code for _, result in refused]
        request.count_errors(codes)
        if not _OF_OLD_NEWS.isdisjoint(codes):
            request.services.topics.look_soon()
    if produce.acks == 0:
        if refused:
            raise CloseConnection("an error in a request with acks=0")
        return None
    version = request.header.api_version
    nodes: Sequence[BrokerAnswer] = ()
    if refused and version >= FIRST_HINTED:
        client_id = request.header.client_id
        moved = [one for one in refused if one[1].error_code == ErrorCode.not_leader_or_follower]
        named = _with_topic_ids(request, moved)
        nodes = name_leaders(request.services.cluster, client_id, named)
    return encode_produce(request.header.correlation_id, version, results, nodes)


def _with_topic_ids(
    request: Request, refused: Sequence[tuple[TopicData, PartitionResult]]
) -> Iterator[tuple[UUID, PartitionResult]]:
    for data, result in refused:
        topic = None if data.topic_id else request.services.topics.get(data.name)
        topic_id = data.topic_id if topic is None else topic.topic.topic_id
        if topic_id is not None:
            yield topic_id, result


def _hold_memory(request: Request, late: Sequence[asyncio.Future[BatchOutcome]]) -> None:
    """Go on counting a frame that is answered, until its batches have left the write buffer.

    Otherwise clients that time out and repeat would fill the memory while a store is away. It
    counts as begun as well, or what they repeat would begin in the reserve of other clients.
    """
    memory, size = request.services.memory, len(request.frame) + REQUEST_BYTES
    memory.take(size)  # the connection gives back what it counted when the answer is there
    held = HeldMemory(memory, size)
    settled = asyncio.gather(*late, return_exceptions=True)
    settled.add_done_callback(lambda _: held.give_back())


def _complete(request: Request, one: Appended) -> None:
    condition = one.outcome.exception()
    if isinstance(condition, CONDITIONS):  # raised, it would hold these frames, and they hold it
        refuse(one.result, condition)
        return
    if condition is not None:
        refuse_for_bug(request, one.result, condition)
        return
    outcome = one.outcome.result()
    if outcome.refusal is not None:
        refuse(one.result, outcome.refusal)
        if (
            one.transaction is not TransactionUse.NONE
            and isinstance(outcome.refusal, InvalidTransactionState)
            and request.header.api_version >= _FIRST_ABORTABLE
        ):
            one.result.error_code = ErrorCode.transaction_abortable
        return
    one.result.base_offset = outcome.base_offset
    one.result.log_start_offset = outcome.log_start_offset
    if outcome.duplicate and one.result.log_append_time_ms != NO_TIMESTAMP:
        one.result.log_append_time_ms = _first_appended_ms(one.log, outcome.base_offset)


def _first_appended_ms(log: PartitionLog | None, base_offset: int) -> int:
    """Return when the first copy of a batch was appended, while memory has it; or NO_TIMESTAMP."""
    batches, _ = ([], 0) if log is None else log.tail.read(base_offset, 1, base_offset + 1)
    return read_header(batches[0]).max_timestamp_ms if batches else NO_TIMESTAMP
