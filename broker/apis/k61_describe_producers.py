"""DescribeProducers: v0 (KIP-664). The idempotent producers of partitions, transactional or not.

Only the partition's replicas answer, as in Kafka, though each broker could: `kafka-transactions
find-hanging --broker-id` asks one broker for all that Metadata says to have a replica there, and
gives up if one of these is refused. Coordinators have no epoch here: it is always -1, as in Kafka
before a producer's first transaction has ended (why, storage/metadata/transactions.py tells).

ACLs: READ on each topic.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.gradual import Gradually
from broker.groups.offset_requests import AskedTopic, Line, Lines, look_up_topics
from broker.refusals import code_of
from broker.requests import DENIED_MESSAGE, NOT_THROTTLED, Request
from protocol.acl import Operation
from protocol.ids import Partition
from protocol.topics import name_problem
from storage.errors import MetadataUnavailable
from storage.metadata.transactions import ProducerState

ASKED_AT_ONCE: Final = 10
"""Partitions whose producers are read together; each may have those of a whole day."""

_NO_COORDINATOR_EPOCH: Final = -1
_MESSAGES: Final = {
    ErrorCode.unknown_topic_or_partition: "There is no such topic or partition.",
    ErrorCode.invalid_topic_exception: "No topic can have this name.",
    ErrorCode.topic_authorization_failed: DENIED_MESSAGE,
    ErrorCode.not_leader_or_follower: "This broker has no replica of this partition.",
}


async def handle(request: Request) -> Payload:
    """Describe what can be; each partition answers for itself, once."""
    asked_topics = await request.aside(_once, request.decode().topics)
    gradually = Gradually()
    producers: dict[Partition, tuple[Any, ...]] = {}
    try:
        topics = await look_up_topics(request, asked_topics, Operation.READ)
        lines = [await _lines(request, topic, gradually) async for topic in gradually.each(topics)]
        wanted = await request.aside(_wanted, lines)
        for start in range(0, len(wanted), ASKED_AT_ONCE):
            request.check_is_awaited()
            piece = wanted[start : start + ASKED_AT_ONCE]
            states = await request.services.metadata.producer_states(piece)
            for partition, found in states.items():
                shown = (_producer(request, state) for state in found)
                producers[partition] = await gradually.made(shown)
    except MetadataUnavailable as unavailable:
        code = code_of(unavailable)
        topics = [AskedTopic(asked, None) for asked in asked_topics]
        lines = [[code] * len(topic.asked.partition_indexes) for topic in topics]
    answered = []
    async for topic, of_topic in gradually.each(zip(topics, lines, strict=True)):
        partitions = await gradually.made(
            _partition(request, index, line, producers)
            for index, line in zip(topic.asked.partition_indexes, of_topic, strict=True)
        )
        answered.append(request.types.TopicResponse(name=topic.asked.name, partitions=partitions))
    response: Payload = request.types.DescribeProducersResponse(
        throttle_time=NOT_THROTTLED, topics=tuple(answered)
    )
    return response


def _once(topics: Sequence[Any]) -> list[Any]:
    """Return each topic and partition once: one that is named may have a thousand producers."""
    indexes: dict[str, dict[int, None]] = {}
    for topic in topics:
        indexes.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    by_name = {topic.name: topic for topic in topics}
    return [
        replace(topic, partition_indexes=tuple(indexes[name])) for name, topic in by_name.items()
    ]


async def _lines(request: Request, topic: AskedTopic, gradually: Gradually) -> Sequence[Line]:
    indexes = topic.asked.partition_indexes
    if name_problem(topic.asked.name):
        return [ErrorCode.invalid_topic_exception] * len(indexes)
    return await gradually.made(_line(request, topic, index) for index in indexes)


def _line(request: Request, topic: AskedTopic, index: int) -> Line:
    line, brokers = topic.partition(index), request.services.cluster.brokers
    if isinstance(line, ErrorCode):
        return line
    assert topic.known is not None
    # With whatever client's rack, Metadata names none that is not among these.
    replicas = brokers.replicas(line, topic.known.topic.replication_factor, None)
    is_there = brokers.membership.node_id in replicas and not brokers.is_cut_off
    return line if is_there else ErrorCode.not_leader_or_follower


def _wanted(lines: Lines) -> list[Partition]:
    return [line for of_topic in lines for line in of_topic if isinstance(line, Partition)]


def _partition(
    request: Request, index: int, line: Line, producers: Mapping[Partition, tuple[Any, ...]]
) -> Any:
    code = line if isinstance(line, ErrorCode) else ErrorCode.none
    return request.types.PartitionResponse(
        partition_index=index,
        error_code=code,
        error_message=_MESSAGES.get(code),
        active_producers=producers.get(line, ()) if isinstance(line, Partition) else (),
    )


def _producer(request: Request, state: ProducerState) -> Any:
    return request.types.ProducerState(
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        last_sequence=state.last_sequence,
        last_timestamp=state.last_timestamp_ms,
        coordinator_epoch=_NO_COORDINATOR_EPOCH,
        current_txn_start_offset=state.transaction_start_offset,
    )
