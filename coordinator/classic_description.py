"""What a classic group tells about itself."""

from coordinator.classic_members import ClassicMember
from coordinator.classic_state import ClassicState
from coordinator.classic_subscription import (
    CONSUMER_PROTOCOL,
    UnreadableSubscription,
    read_subscribed_topics,
)
from coordinator.descriptions import ClassicDescription, ClassicMemberDescription


def describe(state: ClassicState) -> ClassicDescription:
    """Return the group as DescribeGroups shows it."""
    protocol_name = (state.protocol_name or "") if state.is_stable else ""
    return ClassicDescription(
        state=state.state,
        protocol_type=state.protocol_type,
        protocol_name=protocol_name,
        members=[
            _describe_member(member, protocol_name, is_stable=state.is_stable)
            for member in state.members.values()
        ],
    )


def subscribed_topics(state: ClassicState) -> frozenset[str] | None:
    """Return the topics that the members of the current generation want.

    Returns:
        None if nobody can tell: they are no consumers, what they say cannot be read, or they have
        not agreed on a protocol yet.
    """
    if state.protocol_type != CONSUMER_PROTOCOL:
        return None
    if not state.members:
        return frozenset()
    if state.protocol_name is None:
        return None
    topics: set[str] = set()
    try:
        for member in state.members.values():
            topics |= read_subscribed_topics(member.metadata(state.protocol_name))
    except UnreadableSubscription:
        return None
    return frozenset(topics)


def _describe_member(
    member: ClassicMember, protocol_name: str, *, is_stable: bool
) -> ClassicMemberDescription:
    return ClassicMemberDescription(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        metadata=member.metadata(protocol_name) if is_stable else b"",
        assignment=member.assignment if is_stable else b"",
    )
