"""DescribeGroups: v0-6.

v3 authorised operations (KIP-430), v4 static members (KIP-345), v5 flexible, v6 GROUP_ID_NOT_FOUND
with a message (KIP-1043); before, a group that is not there is Dead.

Of classic groups only: ConsumerGroupDescribe is for the others. A group that is named twice is
answered once: an answer must not be larger than the groups that there are.

ACLs: DESCRIBE on each group.
"""

from collections.abc import Awaitable
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.gradual import Gradually
from broker.groups.group_requests import outcomes
from broker.groups.group_runner import GroupRunner
from broker.requests import NOT_THROTTLED, Request
from broker.security.authorized_operations import NOT_ASKED, authorized_operations
from coordinator.descriptions import ClassicDescription
from coordinator.snapshots import GroupState, GroupType
from protocol.acl import Operation, ResourceType

_FIRST_NOT_FOUND: Final = 6

Found = Awaitable[GroupRunner | None] | ErrorCode


async def handle(request: Request) -> Awaitable[Payload]:
    """Describe each group, named once or twice; one that cannot be answers for itself."""
    body = request.decode()
    groups = dict.fromkeys(body.groups)
    found = [(group_id, _find(request, group_id)) async for group_id in Gradually().each(groups)]
    return _respond(request, found, asked=getattr(body, "include_authorized_operations", False))


def _find(request: Request, group_id: str) -> Found:
    if not request.allows(Operation.DESCRIBE, ResourceType.GROUP, group_id):
        return ErrorCode.group_authorization_failed
    return request.services.groups.find(group_id)


async def _respond(request: Request, found: list[tuple[str, Found]], *, asked: bool) -> Payload:
    gradually = Gradually()
    described = [
        await _describe(request, gradually, group_id, outcome, asked=asked)
        async for group_id, outcome in outcomes(found)
    ]
    response: Payload = request.types.DescribeGroupsResponse(
        throttle_time=NOT_THROTTLED, groups=tuple(described)
    )
    return response


async def _describe(
    request: Request,
    gradually: Gradually,
    group_id: str,
    outcome: GroupRunner | ErrorCode | None,
    *,
    asked: bool,
) -> object:
    types = request.types
    if isinstance(outcome, ErrorCode):
        return _without(request, group_id, outcome, None)
    if outcome is None:
        return _missing(request, group_id, f"Group {group_id} not found.", asked=asked)
    is_classic = outcome.machine.group_type is GroupType.CLASSIC
    description = outcome.machine.describe() if is_classic else None
    if not isinstance(description, ClassicDescription):
        message = f"Group {group_id} is not a classic group."
        return _missing(request, group_id, message, asked=asked)
    return types.DescribedGroup(
        error_code=ErrorCode.none,
        error_message=None,
        group_id=group_id,
        group_state=description.state.value,
        protocol_type=description.protocol_type,
        protocol_data=description.protocol_name,
        members=await gradually.made(
            types.DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in description.members
        ),
        authorized_operations=_operations(request, group_id, asked=asked),
    )


def _operations(request: Request, group_id: str, *, asked: bool) -> int:
    return authorized_operations(request, ResourceType.GROUP, group_id) if asked else NOT_ASKED


def _missing(request: Request, group_id: str, message: str, *, asked: bool) -> object:
    if request.version >= _FIRST_NOT_FOUND:
        return _without(request, group_id, ErrorCode.group_id_not_found, message)
    operations = _operations(request, group_id, asked=asked)
    return _without(request, group_id, ErrorCode.none, None, operations)


def _without(
    request: Request,
    group_id: str,
    code: ErrorCode,
    message: str | None,
    operations: int = NOT_ASKED,
) -> Any:
    is_gone = code in {ErrorCode.none, ErrorCode.group_id_not_found}
    return request.types.DescribedGroup(
        error_code=code,
        error_message=message,
        group_id=group_id,
        group_state=GroupState.DEAD.value if is_gone else "",
        protocol_type="",
        protocol_data="",
        members=(),
        authorized_operations=operations,
    )
