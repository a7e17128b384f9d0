"""Fetch: v4-18. v7 sessions (KIP-227), v9 leader epochs (KIP-320), v12 flexible, v13 topic ids.

In a session a client names only what changes, and is told only of partitions that have news
(broker/fetch_session.py). At least one batch is returned if any is there, whatever the limits
(KIP-74). For read_committed, records end at the last stable offset, and the aborted transactions
among them are named (KIP-98). A consumer that names its rack (v11 and later) is sent to the owner
of the partition there, if this broker is not in it, and its offset is in the log (KIP-392).
Who asks another than the leader (v16 and later) is told where that is (KIP-951).
A consumer that owes its quota anything gets an empty answer and a throttle time (KIP-219).
ACLs: READ on each topic, when the request comes and again when its records are there.
Not done: diverging epochs (no log is ever truncated here).
"""

from collections.abc import Sequence
from contextlib import suppress
from itertools import chain
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker.fetch_context import FetchContext, Found, SessionlessFetchContext, Wanted, no_index
from broker.fetching import Fetch
from broker.leader_hints import name_leaders
from broker.network.answer_when import Answer
from broker.refusals import Refusal, unknown_topic
from broker.requests import Request
from broker.security.topic_access import find_topic
from broker.topics import KnownTopic
from protocol.acl import Operation, ResourceType
from protocol.fetch import (
    FIRST_TOPIC_ID,
    LAST_OF_SESSION,
    NEW_SESSION,
    NO_SESSION,
    READ_COMMITTED,
    FetchRequest,
    TopicWanted,
    decode_fetch,
)
from protocol.fetch_response import FIRST_HINTED, PartitionAnswer, encode_fetch
from protocol.metadata_response import BrokerAnswer
from storage.errors import MetadataUnavailable
from storage.partition_log import PartitionLog

_FIRST_STORAGE_ERROR: Final = 6


async def handle(request: Request) -> Answer:
    """Wait for records and answer with them."""
    fetch = decode_fetch(request.frame, request.header.body, request.version)
    if fetch.session_id or fetch.session_epoch != LAST_OF_SESSION:
        return await _in_session(request, fetch)
    return await _without_session(request, fetch)


async def _without_session(request: Request, fetch: FetchRequest) -> Answer:
    context = SessionlessFetchContext()
    if request.quota is not None and request.quota.refuses_fetch():  # before anything is read
        return _throttled(request, fetch, context)
    found = await _find_all(request, fetch.topics, fetch.rack)
    for topic, partitions in zip(fetch.topics, found, strict=True):
        context.add(topic, partitions)
    return await _answer(request, fetch, context)


async def _in_session(request: Request, fetch: FetchRequest) -> Answer:
    by_topic_id = request.version >= FIRST_TOPIC_ID
    try:
        session = request.services.fetch_sessions.take(
            request.session, fetch, by_topic_id=by_topic_id
        )
    except Refusal as refusal:
        request.count_errors([refusal.code])
        return encode_fetch(
            request.header.correlation_id, request.version, [], error_code=refusal.code
        )
    if session is None:  # it has ended with this, or there is no room for it
        return await _without_session(request, fetch)
    if request.quota is not None and request.quota.refuses_fetch():
        return _throttled(request, fetch, session)
    services = request.services
    basis = (services.authorizer.edition, services.cluster.generation, fetch.rack)
    read_committed = fetch.isolation_level == READ_COMMITTED
    unknown = list(session.unknown(basis, read_committed=read_committed))
    found = await _find_all(request, [topic for topic, _ in unknown], fetch.rack)
    for (_, partitions), its in zip(unknown, found, strict=True):
        session.found(partitions, its)
    return await _answer(request, fetch, session)


async def _answer(request: Request, fetch: FetchRequest, context: FetchContext) -> Answer:
    services = request.services
    max_bytes = min(
        fetch.max_bytes, services.config.fetch_max_bytes, services.memory.backlog.room()
    )
    if request.quota is not None:
        max_bytes = request.quota.fetchable_bytes(max_bytes)
    run = Fetch(
        *(services.log, services.cluster, context),
        failures=services.read_failures,
        max_bytes=max_bytes,
        read_committed=fetch.isolation_level == READ_COMMITTED,
        client_id=request.header.client_id,
    )
    max_wait_ms = max(fetch.max_wait_ms, 0) if len(context) else 0  # as of a consumer that closes
    request.forget_frame()
    await run.run(min_bytes=min(fetch.min_bytes, max_bytes), max_wait_s=max_wait_ms / 1000)
    wanted = run.wanted
    if services.authorizer.enabled:
        _withhold(request, wanted)
    if request.quota is not None:
        size = sum(one.answer.size for one in wanted)
        if request.quota.refuses_fetch(size):
            return _throttled(request, fetch, context)
    _count(request, wanted)
    nodes: Sequence[BrokerAnswer] = ()
    refused = [one for one in wanted if one.answer.error_code]
    if refused and request.version >= FIRST_HINTED:
        moved = [
            (one.log.partition.topic_id, one.answer)
            for one in refused
            if one.answer.error_code == ErrorCode.not_leader_or_follower
        ]
        nodes = name_leaders(services.cluster, request.header.client_id, moved)
    topics = context.answers()
    if refused or context.refuses:
        answers = [answer for topic in topics for answer in topic.partitions]
        if request.version < _FIRST_STORAGE_ERROR:
            _tell_in_old_codes(answers)
        request.count_errors([answer.error_code for answer in answers if answer.error_code])
    return encode_fetch(
        *(request.header.correlation_id, request.version, topics),
        session_id=context.session_id,
        nodes=nodes,
    )


def _tell_in_old_codes(answers: Sequence[PartitionAnswer]) -> None:
    """Have those ask again who do not know KAFKA_STORAGE_ERROR yet (KIP-112), and would give up."""
    for answer in answers:
        if answer.error_code == ErrorCode.kafka_storage_error:
            answer.error_code = ErrorCode.not_leader_or_follower


def _throttled(request: Request, fetch: FetchRequest, context: FetchContext) -> Answer:
    """Tell the client to wait; its session goes on, but none begins with that (KIP-219)."""
    context.discard()
    session_id = context.session_id
    if fetch.session_epoch == NEW_SESSION:
        request.services.fetch_sessions.close(request.session, session_id)
        session_id = NO_SESSION
    return encode_fetch(request.header.correlation_id, request.version, [], session_id=session_id)


def _withhold(request: Request, wanted: Sequence[Wanted]) -> None:
    """Take out what ACLs do not give the client any more; it may have waited for minutes."""
    by_topic: dict[UUID, list[Wanted]] = {}
    for one in wanted:
        by_topic.setdefault(one.log.partition.topic_id, []).append(one)
    for topic_id, partitions in by_topic.items():
        name = request.services.topics.name_of(topic_id)  # none if it is gone
        if name and not request.allows(Operation.READ, ResourceType.TOPIC, name):
            for one in partitions:
                denied = PartitionAnswer(one.partition.index, ErrorCode.topic_authorization_failed)
                one.answer = denied


def _count(request: Request, wanted: Sequence[Wanted]) -> None:
    sizes: dict[UUID, int] = {}
    for one in wanted:
        if one.answer.size:
            topic_id = one.log.partition.topic_id
            sizes[topic_id] = sizes.get(topic_id, 0) + one.answer.size
    for topic_id, size in sizes.items():
        request.services.usage.fetched(topic_id, request.header.client_id, size)


async def _find_all(
    request: Request, asked: Sequence[TopicWanted], rack: str
) -> Sequence[Sequence[Found]]:
    """Return for each topic the same as `_find`, or which other broker is to be asked."""
    found = [await _find(request, topic) for topic in asked]
    if rack in request.services.cluster.brokers.racks:
        await _redirect(request, found, rack)
    return found


async def _redirect(request: Request, found: Sequence[list[Found]], rack: str) -> None:
    """Name the broker in the consumer's rack, if that is another one and has what is asked for.

    A consumer begins anew only if the leader says that its offset is out of range. When another
    broker says so it asks the leader again, and would be sent back for ever.
    """
    cluster = request.services.cluster
    away: dict[PartitionLog, int] = {}
    for one in chain.from_iterable(found):
        if isinstance(one, Wanted) and cluster.serves(one.log.partition):
            reader = cluster.reader(one.log.partition, rack)
            if reader != cluster.node_id:
                away[one.log] = reader
    if not away:
        return
    with suppress(MetadataUnavailable):  # then what was heard last has to do
        await cluster.unless_cut_off(request.services.log.refresh(list(away)))
    for partitions in found:
        for at, one in enumerate(partitions):
            if isinstance(one, Wanted) and one.log in away and one.is_in_range:
                partitions[at] = PartitionAnswer(
                    one.partition.index, preferred_read_replica=away[one.log]
                )


async def _find(request: Request, asked: TopicWanted) -> list[Found]:
    """Return for each partition that is asked for whether it can be read here."""
    topic: KnownTopic | None = None
    code = ErrorCode.none
    try:
        if request.services.authorizer.enabled:
            topic = await find_topic(request, Operation.READ, asked.name, asked.topic_id)
        else:
            topic = await request.services.topics.find(asked.name, asked.topic_id)
        if topic is None:
            code = unknown_topic(asked.topic_id)
    except Refusal as refusal:
        code = refusal.code
    except MetadataUnavailable:
        code = no_index(request.services.cluster)
    if topic is None:
        return [PartitionAnswer(partition.index, code) for partition in asked.partitions]
    found: list[Found] = []
    for partition in asked.partitions:
        log = topic.log(partition.index)
        if log is None:
            added = await _find_added(request, topic, partition.index)
            if isinstance(added, ErrorCode):
                found.append(PartitionAnswer(partition.index, added))
                continue
            log = added
        found.append(Wanted(partition, log, PartitionAnswer(partition.index)))
    return found


async def _find_added(request: Request, topic: KnownTopic, index: int) -> PartitionLog | ErrorCode:
    """Return a partition that another broker may just have added, or why there is none."""
    try:
        added = await request.services.topics.added_log(topic, index)
    except MetadataUnavailable:
        return no_index(request.services.cluster)
    return added or ErrorCode.unknown_topic_or_partition
