"""ConsumerGroupDescribe: v0-1 (KIP-848). v1 which protocol a member speaks.

Of consumer groups only: DescribeGroups is for classic ones. A group that is named twice is answered
once. An answer is no larger than all that may wait for slow readers: of groups beyond that the
topics that members name are left out.

ACLs: DESCRIBE on each group, and on all topics that its members subscribe to or have.
"""

from collections.abc import Awaitable

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.encoding import encoded
from broker.gradual import Gradually
from broker.groups.group_requests import named_group, outcomes
from broker.groups.group_runner import GroupRunner
from broker.groups.shown_consumer_groups import ShownConsumerGroups
from broker.network.answer_when import Answer
from broker.network.outbox import Reservation
from broker.refusals import Refusal
from broker.requests import NOT_THROTTLED, Request
from broker.security.authorized_operations import NOT_ASKED, authorized_operations
from coordinator.descriptions import ConsumerDescription
from coordinator.snapshots import GroupType
from protocol.acl import Operation, ResourceType

Found = Awaitable[GroupRunner | None] | ErrorCode


async def handle(request: Request) -> Awaitable[Answer]:
    """Describe each group, named once or twice; one that cannot be answers for itself."""
    body = request.decode()
    groups = dict.fromkeys(body.group_ids)
    found = [(group_id, _find(request, group_id)) async for group_id in Gradually().each(groups)]
    return _respond(request, found, asked=body.include_authorized_operations)


def _find(request: Request, group_id: str) -> Found:
    try:
        request.authorize(Operation.DESCRIBE, ResourceType.GROUP, group_id)
        return request.services.groups.find(named_group(group_id))
    except Refusal as refusal:
        return refusal.code


async def _respond(request: Request, found: list[tuple[str, Found]], *, asked: bool) -> Answer:
    room = Reservation(request.services.memory.backlog)
    try:
        shown = ShownConsumerGroups(request, room)
        described = [
            await _describe(request, shown, group_id, outcome, asked=asked)
            async for group_id, outcome in outcomes(found)
        ]
        response: Payload = request.types.ConsumerGroupDescribeResponse(
            throttle_time=NOT_THROTTLED, groups=tuple(described)
        )
        return await encoded(request.header.correlation_id, response)
    finally:
        room.release()


async def _describe(
    request: Request,
    shown: ShownConsumerGroups,
    group_id: str,
    outcome: GroupRunner | ErrorCode | None,
    *,
    asked: bool,
) -> object:
    if isinstance(outcome, ErrorCode):
        return _without(request, group_id, outcome, None)
    not_found = ErrorCode.group_id_not_found
    if outcome is None:
        return _without(request, group_id, not_found, f"Group {group_id} not found.")
    is_consumer_group = outcome.machine.group_type is GroupType.CONSUMER
    group = outcome.machine.describe() if is_consumer_group else None
    if not isinstance(group, ConsumerDescription):
        return _without(request, group_id, not_found, f"Group {group_id} is not a consumer group.")
    try:
        members = await shown.members(group)
    except Refusal as refusal:
        return _without(request, group_id, refusal.code, str(refusal))
    operations = NOT_ASKED
    if asked:
        operations = authorized_operations(request, ResourceType.GROUP, group_id)
    return request.types.DescribedGroup(
        error_code=ErrorCode.none,
        error_message=None,
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor_name,
        members=members,
        authorized_operations=operations,
    )


def _without(request: Request, group_id: str, code: ErrorCode, message: str | None) -> object:
    return request.types.DescribedGroup(
        error_code=code,
        error_message=message,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=(),
        authorized_operations=NOT_ASKED,
    )
