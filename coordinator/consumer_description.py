"""What a consumer group tells about itself."""

from coordinator.consumer_core import ConsumerCore
from coordinator.consumer_member import Member
from coordinator.descriptions import ConsumerDescription, ConsumerMemberDescription


def describe(core: ConsumerCore) -> ConsumerDescription:
    """Return the group as ConsumerGroupDescribe shows it."""
    return ConsumerDescription(
        state=core.state,
        group_epoch=core.epoch,
        assignment_epoch=core.assignment_epoch,
        assignor_name=core.assignor,
        members=[_describe_member(member) for member in core.members],
    )


def subscribed_topics(core: ConsumerCore) -> frozenset[str] | None:
    """Return all subscribed names; None while a pattern could not be resolved yet."""
    in_use = core.members.subscriptions()
    if core.subscriptions.catalog is None and any(s.pattern for s in in_use):
        return None
    return frozenset[str]().union(*(core.subscriptions.names(s) for s in in_use))


def _describe_member(member: Member) -> ConsumerMemberDescription:
    return ConsumerMemberDescription(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.subscription.names,
        subscribed_topic_regex=member.subscription.pattern or None,
        assignment=member.assigned,
        target_assignment=member.target,
        is_classic=member.classic is not None,
    )
