"""TxnOffsetCommit: v0-5. Offsets that a group has committed when a transaction is (KIP-98).

v2 leader epochs (KIP-320), v3 flexible and which member commits (KIP-447), v4 TRANSACTION_ABORTABLE
and v5 a group takes part without AddOffsetsToTxn (both KIP-890).

It goes to the group's coordinator, which checks the member; the transaction is checked where the
offsets are written, by the same statements (broker/groups/group_transactions.py). To repeat it does
no harm. Who names no member is not checked at all: only the epoch of its transactional id fences
it, and if that is fine, it makes the group if need be.

If Postgres does not answer it is COORDINATOR_NOT_AVAILABLE, which every client repeats: producers
before 2.0 end at COORDINATOR_LOAD_IN_PROGRESS. A KIP-848 member of another epoch is told
ILLEGAL_GENERATION, as in Kafka: producers end at STALE_MEMBER_EPOCH.

ACLs: WRITE on the transactional id, READ on the group, READ on each topic.
"""

from collections.abc import Awaitable, Sequence
from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.groups.group_commits import Committer
from broker.groups.group_requests import named_group, outcome_of
from broker.groups.offset_requests import (
    AskedTopic,
    Lines,
    coded_topics,
    commit_lines,
    concern_group,
    look_up_topics,
    offsets_to_commit,
    refused_lines,
    written_lines,
)
from broker.refusals import Refusal, coordinating
from broker.requests import NOT_THROTTLED, Request
from broker.transactions.transaction_requests import code_of_verdict, named_producer
from protocol.acl import Operation, ResourceType
from storage.metadata.transactions import TransactionOffsetsOutcome, Verdict

_FIRST_ABORTABLE: Final = 4
_FIRST_IMPLICIT: Final = 5


async def handle(request: Request) -> Awaitable[Payload] | Payload:
    """Take what can be; each partition answers for itself."""
    body = request.decode()
    try:
        request.authorize(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, body.transactional_id)
        request.authorize(Operation.READ, ResourceType.GROUP, body.group_id)
        producer = named_producer(body.transactional_id, body.producer_id, body.producer_epoch)
        group_id = named_group(body.group_id)
        with coordinating():
            topics = await look_up_topics(request, body.topics, Operation.READ)
    except Refusal as refusal:
        topics = [AskedTopic(asked, None) for asked in body.topics]
        codes = [[refusal.code] * len(topic.asked.partitions) for topic in topics]
        return await request.aside(_response, request, topics, codes)
    lines = await request.aside(commit_lines, request, topics)
    if not concern_group(lines):
        return await request.aside(_response, request, topics, lines)
    committer = Committer(
        member_id=getattr(body, "member_id", ""),
        instance_id=getattr(body, "group_instance_id", None),
        generation_id=getattr(body, "generation_id", -1),
    )
    offsets = await request.aside(offsets_to_commit, topics, lines)
    answer = request.services.groups.commit_in_transaction(
        group_id,
        committer,
        producer,
        offsets,
        joins=request.version >= _FIRST_IMPLICIT,
    )
    return _respond(request, topics, lines, answer)


async def _respond(
    request: Request,
    topics: Sequence[AskedTopic],
    lines: Lines,
    awaited: Awaitable[TransactionOffsetsOutcome | None],
) -> Payload:
    outcome = await outcome_of(awaited)
    if isinstance(outcome, TransactionOffsetsOutcome) and outcome.verdict is Verdict.DONE:
        lines = await request.aside(written_lines, lines, outcome.unknown)
    else:
        lines = await request.aside(refused_lines, lines, _code_of(request, outcome))
    return await request.aside(_response, request, topics, lines)


def _code_of(request: Request, outcome: TransactionOffsetsOutcome | ErrorCode | None) -> ErrorCode:
    """Return the code that this version knows for what befell all partitions."""
    if outcome is None:
        return ErrorCode.illegal_generation
    if isinstance(outcome, ErrorCode):
        return outcome
    if outcome.verdict is Verdict.INVALID_STATE and request.version >= _FIRST_ABORTABLE:
        return ErrorCode.transaction_abortable
    return code_of_verdict(outcome.verdict, says_fenced=False)


def _response(request: Request, topics: Sequence[AskedTopic], lines: Lines) -> Payload:
    types = request.types
    answered = coded_topics(
        topics, lines, types.TxnOffsetCommitResponseTopic, types.TxnOffsetCommitResponsePartition
    )
    response: Payload = types.TxnOffsetCommitResponse(throttle_time=NOT_THROTTLED, topics=answered)
    return response
