"""OffsetCommit: v2-10.

v6 leader epochs (KIP-320), v7 static members (KIP-345), v8 flexible, v9 members of consumer groups
(KIP-848; at their previous epoch, too, for what they have held since: KIP-1251), v10 topic ids.

One statement at most: what several clients commit at a time goes together
(broker/groups/group_writes.py). Who is no member (generation -1) commits to a group without members
only, and makes it if need be.
ACLs: READ on the group, READ on each topic.
Not done: retention_time (v2-4), which Kafka ignores as well.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.groups.group_commits import Committer
from broker.groups.group_requests import outcome_of
from broker.groups.offset_requests import (
    AskedTopic,
    Lines,
    coded_topics,
    commit_lines,
    concern_group,
    look_up_topics,
    moved_partitions,
    offsets_to_commit,
    refused_lines,
    written_lines,
)
from broker.refusals import coordinating
from broker.requests import NOT_THROTTLED, Request
from protocol.acl import Operation, ResourceType
from protocol.ids import Partition
from storage.errors import MetadataUnavailable
from storage.metadata.groups import CommittedOffset

_FIRST_OF_CONSUMER_GROUPS: Final = 9

Offsets = Mapping[Partition, CommittedOffset]

Gone = frozenset[Partition] | None
"""Partitions of a commit that turned out not to exist; None without the group."""


async def handle(request: Request) -> Awaitable[Payload] | Payload:
    """Commit what can be; each partition answers for itself."""
    body = request.decode()
    if not request.allows(Operation.READ, ResourceType.GROUP, body.group_id):
        return await _refused(request, body, ErrorCode.group_authorization_failed)
    try:
        topics = await look_up_topics(request, body.topics, Operation.READ)
    except MetadataUnavailable:
        return await _refused(request, body, ErrorCode.coordinator_not_available)
    lines = await request.aside(commit_lines, request, topics)
    if not concern_group(lines):
        return await request.aside(_response, request, topics, lines)
    committer = Committer(
        member_id=body.member_id,
        instance_id=getattr(body, "group_instance_id", None),
        generation_id=body.generation_id_or_member_epoch,
    )
    commit = partial(request.services.groups.commit, body.group_id, committer)
    offsets = await request.aside(offsets_to_commit, topics, lines)
    gone = _renewed(request, topics, offsets, commit(offsets), commit)
    return _respond(request, topics, lines, gone)


async def _refused(request: Request, body: Any, code: ErrorCode) -> Payload:
    """Answer every partition with a code for all of them."""
    topics = [AskedTopic(asked, None) for asked in body.topics]
    lines = [[code] * len(one.asked.partitions) for one in topics]
    return await request.aside(_response, request, topics, lines)


async def _respond(
    request: Request,
    topics: Sequence[AskedTopic],
    lines: Lines,
    awaited: Awaitable[Gone],
) -> Payload:
    outcome: Gone | ErrorCode = await outcome_of(awaited)
    if outcome is None or isinstance(outcome, ErrorCode):
        lines = await request.aside(refused_lines, lines, _code_of(request, outcome))
    else:
        lines = await request.aside(written_lines, lines, outcome)
    return await request.aside(_response, request, topics, lines)


async def _renewed(
    request: Request,
    topics: Sequence[AskedTopic],
    offsets: Offsets,
    first: Awaitable[Gone],
    commit: Callable[[Offsets], Awaitable[Gone]],
) -> Gone:
    """Commit once more, to topics that turn out to have been made again; return what is gone then.

    Only to these: a later commit of the others may have overtaken this one.
    """
    gone = await first
    with coordinating():
        moved = await moved_partitions(request, topics, offsets.keys() & (gone or ()))
    if gone is None or not moved:
        return gone
    still = await commit({moved[one]: offsets[one] for one in moved})
    if still is None:
        return None
    return gone - {one for one in moved if moved[one] not in still}


def _code_of(request: Request, outcome: ErrorCode | None) -> ErrorCode:
    """Return the code that this version knows for what befell the whole group."""
    new = request.version >= _FIRST_OF_CONSUMER_GROUPS
    if outcome is None:
        return ErrorCode.group_id_not_found if new else ErrorCode.illegal_generation
    if outcome is ErrorCode.stale_member_epoch and not new:
        return ErrorCode.unsupported_version
    return outcome


def _response(request: Request, topics: Sequence[AskedTopic], lines: Lines) -> Payload:
    types = request.types
    answered = coded_topics(
        topics, lines, types.OffsetCommitResponseTopic, types.OffsetCommitResponsePartition
    )
    response: Payload = types.OffsetCommitResponse(throttle_time=NOT_THROTTLED, topics=answered)
    return response
