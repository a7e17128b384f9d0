"""Fetch: v4-18. v7 sessions (KIP-227), v9 leader epochs (KIP-320), v12 flexible, v13 topic ids.

Sessionless: session 0 is answered, so clients send full fetches. At least one batch is returned if
any is there, whatever the limits (KIP-74). For read_committed, records end at the last stable
offset, and the aborted transactions among them are named (KIP-98). A consumer that names its rack
(v11 and later) is sent to the owner of the partition there, if this broker is not in it (KIP-392).
Who asks another than the leader (v16 and later) is told where that is (KIP-951).
A consumer that owes its quota anything gets an empty answer and a throttle time (KIP-219).
ACLs: READ on each topic, when the request comes and again when its records are there.
Not done: diverging epochs (no log is ever truncated here).
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker.cluster import Cluster
from broker.fetch_growth import Wanted
from broker.fetching import Fetch, no_index
from broker.leader_hints import name_leaders
from broker.network.answer_when import Answer
from broker.refusals import Refusal
from broker.requests import Request
from broker.security.topic_access import find_topic
from broker.topics import KnownTopic
from protocol.acl import Operation, ResourceType
from protocol.fetch import READ_COMMITTED, FetchRequest, TopicWanted, decode_fetch
from protocol.fetch_response import FIRST_HINTED, PartitionAnswer, TopicAnswer, encode_fetch
from protocol.metadata_response import BrokerAnswer
from storage.errors import MetadataUnavailable
from storage.partition_log import PartitionLog

_FULL_FETCH: Final = (-1, 0)  # without a session, and what would begin one (KIP-227)


async def handle(request: Request) -> Answer:
    """Wait for records and answer with them."""
    fetch = decode_fetch(request.frame, request.header.body, request.version)
    if fetch.session_epoch not in _FULL_FETCH:  # the next of a session, and there are none
        return _without_records(request, ErrorCode.fetch_session_id_not_found)
    if request.quota is not None and request.quota.refuses_fetch():  # before anything is read
        return _without_records(request)
    topics, wanted, all_wanted = await _resolve(request, fetch)
    services = request.services
    max_bytes = min(
        fetch.max_bytes, services.config.fetch_max_bytes, services.memory.backlog.room()
    )
    if request.quota is not None:
        max_bytes = request.quota.fetchable_bytes(max_bytes)
    run = Fetch(
        request.services.log,
        request.services.cluster,
        wanted,
        failures=services.read_failures,
        max_bytes=max_bytes,
        read_committed=fetch.isolation_level == READ_COMMITTED,
        client_id=request.header.client_id,
    )
    max_wait_ms = max(fetch.max_wait_ms, 0) if all_wanted else 0  # there is something to tell
    request.forget_frame()
    await run.run(min_bytes=min(fetch.min_bytes, max_bytes), max_wait_s=max_wait_ms / 1000)
    if request.services.authorizer.enabled:
        _withhold(request, wanted)
    if request.quota is not None:
        size = sum(one.answer.size for one in wanted)
        if request.quota.refuses_fetch(size):
            return _without_records(request)
    _count(request, wanted)
    nodes: Sequence[BrokerAnswer] = ()
    refused = [one for one in wanted if one.answer.error_code]
    if refused and request.version >= FIRST_HINTED:
        moved = [
            (one.log.partition.topic_id, one.answer)
            for one in refused
            if one.answer.error_code == ErrorCode.not_leader_or_follower
        ]
        nodes = name_leaders(request.services.cluster, request.header.client_id, moved)
    if refused or not all_wanted:
        unread = [answer for topic in topics for answer in topic.partitions]  # if it is refused
        answers = [*unread, *(one.answer for one in refused)]
        request.count_errors([answer.error_code for answer in answers if answer.error_code])
    answered = iter(wanted)
    for topic in topics:
        topic.partitions = [
            answer if _is_final(answer) else next(answered).answer for answer in topic.partitions
        ]
    return encode_fetch(request.header.correlation_id, request.version, topics, nodes=nodes)


def _without_records(request: Request, code: ErrorCode = ErrorCode.none) -> Answer:
    if code:
        request.count_errors([code])
    return encode_fetch(request.header.correlation_id, request.version, [], error_code=code)


def _withhold(request: Request, wanted: Sequence[Wanted]) -> None:
    """Take out what ACLs do not give the client any more; it may have waited for minutes."""
    denied = ErrorCode.topic_authorization_failed
    for _, of_topic in groupby(wanted, lambda one: one.log.partition.topic_id):
        partitions = list(of_topic)
        name = request.services.topics.name_of(partitions[0].log)  # none if it is gone
        if name and not request.allows(Operation.READ, ResourceType.TOPIC, name):
            for one in partitions:
                one.answer = PartitionAnswer(one.partition.index, denied)


def _count(request: Request, wanted: Sequence[Wanted]) -> None:
    sizes: dict[UUID, int] = {}
    for one in wanted:
        if one.answer.size:
            topic_id = one.log.partition.topic_id
            sizes[topic_id] = sizes.get(topic_id, 0) + one.answer.size
    for topic_id, size in sizes.items():
        request.services.usage.fetched(topic_id, request.header.client_id, size)


def _is_final(answer: PartitionAnswer) -> bool:
    """Whether there is nothing to read for it here."""
    return answer.error_code != ErrorCode.none or answer.preferred_read_replica >= 0


def _redirect(answer: PartitionAnswer, cluster: Cluster, log: PartitionLog, rack: str) -> None:
    """Name the broker in the consumer's rack, if that is another one."""
    if rack in cluster.brokers.racks and cluster.serves(log.partition):
        reader = cluster.reader(log.partition, rack)
        if reader != cluster.node_id:
            answer.preferred_read_replica = reader


async def _resolve(
    request: Request, fetch: FetchRequest
) -> tuple[list[TopicAnswer], list[Wanted], bool]:
    """Return the response's skeleton, errors filled in, and what is to be read, in its order.

    And whether that is all that was asked for.
    """
    topics: list[TopicAnswer] = []
    wanted: list[Wanted] = []
    count = 0
    for asked in fetch.topics:
        partitions = await _resolve_topic(request, asked, fetch.rack, wanted)
        topics.append(TopicAnswer(asked.name, asked.topic_id, partitions))
        count += len(partitions)
    return topics, wanted, len(wanted) == count


async def _resolve_topic(
    request: Request, asked: TopicWanted, rack: str, wanted: list[Wanted]
) -> list[PartitionAnswer]:
    try:
        if request.services.authorizer.enabled:
            topic = await find_topic(request, Operation.READ, asked.name, asked.topic_id)
        else:
            topic = await request.services.topics.find(asked.name, asked.topic_id)
    except Refusal as refusal:
        return [PartitionAnswer(partition.index, refusal.code) for partition in asked.partitions]
    except MetadataUnavailable:
        code = no_index(request.services.cluster)
        return [PartitionAnswer(partition.index, code) for partition in asked.partitions]
    if topic is None:
        unknown = ErrorCode.unknown_topic_or_partition
        code = unknown if asked.topic_id is None else ErrorCode.unknown_topic_id
        return [PartitionAnswer(partition.index, code) for partition in asked.partitions]
    answers = []
    for partition in asked.partitions:
        log = topic.log(partition.index)
        if log is None:
            added = await _find_added(request, topic, partition.index)
            if isinstance(added, ErrorCode):
                answers.append(PartitionAnswer(partition.index, added))
                continue
            log = added
        answer = PartitionAnswer(partition.index)
        if rack:
            _redirect(answer, request.services.cluster, log, rack)
        answers.append(answer)
        if answer.preferred_read_replica < 0:
            wanted.append(Wanted(partition, log, answer))
    return answers


async def _find_added(request: Request, topic: KnownTopic, index: int) -> PartitionLog | ErrorCode:
    """Return a partition that another broker may just have added, or why there is none."""
    try:
        grown = await request.services.topics.grown(topic, (index,))
    except MetadataUnavailable:
        return no_index(request.services.cluster)
    return grown.log(index) or ErrorCode.unknown_topic_or_partition
