"""OffsetFetch: v1-10.

v2 null topics is all, and a code for the group; v5 leader epochs (KIP-320), v6 flexible, v7
require_stable (KIP-447), v8 several groups (KIP-709), v9 members of consumer groups (KIP-848), v10
topic ids.

Offsets are read from Postgres, so a broker that is not the coordinator (any more) can answer, too,
and does: librdkafka never repeats an OffsetFetch that was answered with NOT_COORDINATOR after a
SyncGroup, and its consumer would read nothing for ever. It learns of the move by its heartbeat.

A group that cannot be read is told of by its partitions as well as at the top, before v8: aiokafka
looks at those only, and would take it for one that has committed nothing.

What is not committed is -1 without an error. A partition for which an open transaction has an
offset is UNSTABLE_OFFSET_COMMIT where only stable offsets are asked for: clients ask again until
the transaction has ended. Where all are asked for, such a partition is among them only if it has an
offset already, as in Kafka. One statement for each group; a group whose topics are all asked for is
answered once, however often it is named, as what that takes does not grow with the request. Of a
request that names very many, only so many are begun at a time: each takes memory while it waits.

ACLs: DESCRIBE on each group and each topic; where all topics are asked for, others are left out.
"""

from collections import deque
from collections.abc import Awaitable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from operator import attrgetter
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.gradual import Gradually
from broker.groups.group_requests import outcome_of
from broker.groups.offset_requests import AskedTopic, look_up_topics
from broker.refusals import Refusal, coordinating
from broker.requests import NOT_THROTTLED, Request
from protocol.acl import Operation, ResourceType
from protocol.ids import Partition
from storage.metadata.groups import CommittedOffset, CommittedOffsets

_FIRST_BATCHED: Final = 8
_NOTHING: Final = CommittedOffset(offset=-1)

MAX_BEGUN: Final = 1_000
"""Groups of one request that wait at a time."""

_NONE: Final = CommittedOffsets(offsets={}, unstable=frozenset())

Outcome = list[Any] | ErrorCode
"""The topics' part of an answer, or why there is none."""

Begun = tuple[Any, Awaitable[bool] | ErrorCode]
"""What is asked of a group, and what its offsets wait for, or why nobody gets them."""


async def handle(request: Request) -> Awaitable[Payload]:
    """Begin to fetch for each group; one that cannot be answers for itself."""
    body = request.decode()
    asked = body.groups if request.version >= _FIRST_BATCHED else (body,)
    groups = ((group, _begin(request, group)) for group in _once(asked))
    begun = deque([one async for one in Gradually().each(islice(groups, MAX_BEGUN))])
    in_turn = _in_turn(begun, groups)
    return _respond(request, in_turn, is_stable=getattr(body, "require_stable", False))


def _once(groups: Iterable[Any]) -> Iterator[Any]:
    """Pass each group on; of those that ask for all topics of the same group, the first."""
    asked_for_all: set[str] = set()
    for group in groups:
        if group.topics is not None:
            yield group
        elif group.group_id not in asked_for_all:
            asked_for_all.add(group.group_id)
            yield group


def _in_turn(begun: deque[Begun], rest: Iterator[Begun]) -> Iterator[Begun]:
    """Pass on those that were begun, and begin one of the rest for each that is done with."""
    while begun:
        yield begun.popleft()
        begun.extend(islice(rest, 1))


def _begin(request: Request, group: Any) -> Awaitable[bool] | ErrorCode:
    """Ask the group; see `Groups.may_fetch`."""
    if not request.allows(Operation.DESCRIBE, ResourceType.GROUP, group.group_id):
        return ErrorCode.group_authorization_failed
    return request.services.groups.may_fetch(
        group.group_id,
        member_id=getattr(group, "member_id", None),
        member_epoch=getattr(group, "member_epoch", -1),
    )


async def _respond(request: Request, groups: Iterator[Begun], *, is_stable: bool) -> Payload:
    outcomes = [
        (
            group,
            begun
            if isinstance(begun, ErrorCode)
            else await outcome_of(_fetch(request, group, begun, is_stable=is_stable)),
        )
        async for group, begun in Gradually().each(groups)
    ]
    return await request.aside(_response, request, outcomes)


def _response(request: Request, outcomes: list[tuple[Any, Outcome]]) -> Payload:
    types = request.types
    if request.version < _FIRST_BATCHED:
        ((group, outcome),) = outcomes
        return _single_response(request, group, outcome)
    response: Payload = types.OffsetFetchResponse(
        throttle_time=NOT_THROTTLED,
        groups=tuple(
            types.OffsetFetchResponseGroup(
                group_id=group.group_id,
                topics=() if isinstance(outcome, ErrorCode) else tuple(outcome),
                error_code=_code_of(outcome),
            )
            for group, outcome in outcomes
        ),
    )
    return response


def _single_response(request: Request, group: Any, outcome: Outcome) -> Payload:
    code, topics = _code_of(outcome), outcome
    if isinstance(topics, ErrorCode):
        topics = [_refused(request, asked, code) for asked in group.topics or ()]
    response: Payload = request.types.OffsetFetchResponse(
        throttle_time=NOT_THROTTLED, error_code=code, topics=tuple(topics)
    )
    return response


def _code_of(outcome: Outcome) -> ErrorCode:
    """Return the group's code; if Postgres does not answer, the one that clients repeat.

    Older Java consumers give up on COORDINATOR_NOT_AVAILABLE of a group here, and only here, as
    aiokafka does on that of a partition.
    """
    if not isinstance(outcome, ErrorCode):
        return ErrorCode.none
    if outcome is ErrorCode.coordinator_not_available:
        return ErrorCode.coordinator_load_in_progress
    return outcome


async def _fetch(
    request: Request, group: Any, may_fetch: Awaitable[bool], *, is_stable: bool
) -> list[Any]:
    """Return the topics' part of the answer; `is_stable` shows no offset that is about to change.

    Raises:
        Refusal: not for this member, or not now.
    """
    try:
        is_known = await may_fetch
    except Refusal as refusal:
        if refusal.code is not ErrorCode.not_coordinator:
            raise
        is_known = True
    with coordinating():
        if group.topics is None:
            if not is_known:
                return []
            return await _all(request, await _committed(request, group, None, is_stable=is_stable))
        asked = await look_up_topics(request, group.topics, Operation.DESCRIBE)
    wanted = await request.aside(_wanted, asked)
    committed = _NONE
    if is_known and wanted:
        committed = await _committed(request, group, wanted, is_stable=is_stable)
    gradually = Gradually()
    return [await _asked_topic(request, topic, committed, gradually) for topic in asked]


def _wanted(topics: Iterable[AskedTopic]) -> list[Partition]:
    return [
        partition
        for topic in topics
        for index in topic.asked.partition_indexes
        if isinstance(partition := topic.partition(index), Partition)
    ]


async def _committed(
    request: Request, group: Any, wanted: Sequence[Partition] | None, *, is_stable: bool
) -> CommittedOffsets:
    services = request.services
    ask = services.groups.committed(group.group_id, wanted)
    with coordinating():
        committed = await services.cluster.unless_cut_off(ask)
    return committed if is_stable else replace(committed, unstable=frozenset())


async def _all(request: Request, committed: CommittedOffsets) -> list[Any]:
    """Return all that the group committed of topics that the client may know of, and that exist."""
    by_topic: dict[UUID, list[Partition]] = {}
    for partition in committed.offsets:
        by_topic.setdefault(partition.topic_id, []).append(partition)
    gradually, topics = Gradually(), []
    for topic_id, found in sorted(by_topic.items()):
        known = await request.services.topics.find(topic_id=topic_id)
        if known is None or not request.allows(
            Operation.DESCRIBE, ResourceType.TOPIC, known.topic.name, audit=False
        ):
            continue
        found.sort(key=attrgetter("index"))
        partitions = await gradually.made(
            _known_partition(request, one, committed) for one in found
        )
        topics.append(_topic(request, {"name": known.topic.name, "topic_id": topic_id}, partitions))
    return topics


async def _asked_topic(
    request: Request, topic: AskedTopic, committed: CommittedOffsets, gradually: Gradually
) -> object:
    def answer(index: int) -> object:
        partition = topic.partition(index)
        if isinstance(partition, Partition):
            return _known_partition(request, partition, committed)
        unknown = partition is ErrorCode.unknown_topic_or_partition
        code = ErrorCode.none if unknown else partition  # what is not there is not committed
        return _partition(request, index, _NOTHING, code)

    partitions = await gradually.made(map(answer, topic.asked.partition_indexes))
    return _topic(request, topic.identity, partitions)


def _refused(request: Request, asked: Any, code: ErrorCode) -> object:
    """Return a topic of which no partition could be looked up."""
    partitions = (_partition(request, index, _NOTHING, code) for index in asked.partition_indexes)
    return _topic(request, {"name": asked.name}, partitions)


def _topic(request: Request, identity: dict[str, Any], partitions: Iterable[object]) -> object:
    types = request.types
    alone = request.version < _FIRST_BATCHED
    make = types.OffsetFetchResponseTopic if alone else types.OffsetFetchResponseTopics
    if alone:
        identity.pop("topic_id", None)
    topic: object = make(**identity, partitions=tuple(partitions))
    return topic


def _known_partition(request: Request, partition: Partition, committed: CommittedOffsets) -> object:
    if partition in committed.unstable:
        code = ErrorCode.unstable_offset_commit
        return _partition(request, partition.index, _NOTHING, code)
    return _partition(request, partition.index, committed.offsets.get(partition, _NOTHING))


def _partition(
    request: Request, index: int, found: CommittedOffset, code: ErrorCode = ErrorCode.none
) -> object:
    types = request.types
    alone = request.version < _FIRST_BATCHED
    make = types.OffsetFetchResponsePartition if alone else types.OffsetFetchResponsePartitions
    partition: object = make(
        partition_index=index,
        committed_offset=found.offset,
        committed_leader_epoch=found.leader_epoch,
        metadata=found.metadata,
        error_code=code,
    )
    return partition
