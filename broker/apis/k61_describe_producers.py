"""DescribeProducers: v0 (KIP-664). The idempotent producers of partitions, transactional or not.

Only the partition's leader answers, so that tools ask one broker, though each could. Coordinators
have no epoch here (storage/metadata/transactions.py tells why they need none): it is always -1, as
in Kafka before a producer's first transaction has ended. ACLs: READ on each topic.
"""

from collections.abc import Sequence
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.groups.offset_requests import AskedTopic, Line, look_up_topics
from broker.refusals import code_of
from broker.requests import DENIED_MESSAGE, NOT_THROTTLED, Request
from protocol.acl import Operation
from protocol.ids import Partition
from protocol.topics import name_problem
from storage.errors import MetadataUnavailable
from storage.metadata.transactions import ProducerState

_NO_COORDINATOR_EPOCH: Final = -1
_MESSAGES: Final = {
    ErrorCode.unknown_topic_or_partition: "There is no such topic or partition.",
    ErrorCode.invalid_topic_exception: "No topic can have this name.",
    ErrorCode.topic_authorization_failed: DENIED_MESSAGE,
    ErrorCode.not_leader_or_follower: "Another broker is the leader of this partition.",
}


async def handle(request: Request) -> Payload:
    """Describe what can be; each partition answers for itself."""
    body = request.decode()
    states: dict[Partition, list[ProducerState]] = {}
    try:
        topics = await look_up_topics(request, body.topics, Operation.READ)
        lines = [_lines(request, topic) for topic in topics]
        wanted = [line for of_topic in lines for line in of_topic if isinstance(line, Partition)]
        if wanted:
            states = await request.services.metadata.producer_states(list(dict.fromkeys(wanted)))
    except MetadataUnavailable as unavailable:
        code = code_of(unavailable)
        topics = [AskedTopic(asked, None) for asked in body.topics]
        lines = [[code] * len(topic.asked.partition_indexes) for topic in topics]
    answered = [
        request.types.TopicResponse(
            name=topic.asked.name, partitions=_partitions(request, topic, of_topic, states)
        )
        for topic, of_topic in zip(topics, lines, strict=True)
    ]
    response: Payload = request.types.DescribeProducersResponse(
        throttle_time=NOT_THROTTLED, topics=tuple(answered)
    )
    return response


def _lines(request: Request, topic: AskedTopic) -> list[Line]:
    serves = request.services.cluster.serves
    if name_problem(topic.asked.name):
        return [ErrorCode.invalid_topic_exception] * len(topic.asked.partition_indexes)
    lines = (topic.partition(index) for index in topic.asked.partition_indexes)
    return [
        ErrorCode.not_leader_or_follower
        if isinstance(line, Partition) and not serves(line)
        else line
        for line in lines
    ]


def _partitions(
    request: Request,
    topic: AskedTopic,
    lines: Sequence[Line],
    states: dict[Partition, list[ProducerState]],
) -> tuple[Any, ...]:
    def partition(index: int, line: Line) -> Any:
        code = line if isinstance(line, ErrorCode) else ErrorCode.none
        found = states.get(line, []) if isinstance(line, Partition) else []
        return request.types.PartitionResponse(
            partition_index=index,
            error_code=code,
            error_message=_MESSAGES.get(code),
            active_producers=tuple(_producer(request, state) for state in found),
        )

    indexes = topic.asked.partition_indexes
    return tuple(partition(index, line) for index, line in zip(indexes, lines, strict=True))


def _producer(request: Request, state: ProducerState) -> Any:
    return request.types.ProducerState(
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        last_sequence=state.last_sequence,
        last_timestamp=state.last_timestamp_ms,
        coordinator_epoch=_NO_COORDINATOR_EPOCH,
        current_txn_start_offset=state.transaction_start_offset,
    )
