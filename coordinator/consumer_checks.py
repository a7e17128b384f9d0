"""What a ConsumerGroupHeartbeat must look like, and which epochs a member may come with."""

from collections.abc import Collection
from typing import Final

from kio.schema.errors import ErrorCode

from coordinator.config import MAX_MEMBER_BYTES
from coordinator.consumer_member import JOINING_EPOCH, LEAVING_STATIC_EPOCH, Member
from coordinator.consumer_said import bytes_of
from coordinator.events import ConsumerHeartbeat
from coordinator.refused import Refused
from coordinator.subscriptions import InvalidPattern, compile_pattern


def check_request(event: ConsumerHeartbeat, assignors: Collection[str]) -> None:
    """Check what can be told without knowing the group.

    Raises:
        Refused: INVALID_REQUEST or UNSUPPORTED_ASSIGNOR.
    """
    wrong = _what_is_wrong(event)
    if wrong is not None:
        raise Refused(ErrorCode.invalid_request, wrong)
    if event.server_assignor is not None and event.server_assignor not in assignors:
        raise Refused(
            ErrorCode.unsupported_assignor,
            f"ServerAssignor {event.server_assignor} is not supported. Supported assignors:"
            f" {', '.join(assignors)}.",
        )


def check_new_pattern(event: ConsumerHeartbeat) -> None:
    """Check the pattern of one who joins, before a group is made for it.

    Raises:
        Refused: INVALID_REGULAR_EXPRESSION.
    """
    pattern = event.subscribed_topic_regex
    if event.member_epoch != JOINING_EPOCH or not pattern:
        return
    try:
        compile_pattern(pattern)
    except InvalidPattern as invalid:
        raise invalid_regex(pattern, invalid) from invalid


def invalid_regex(pattern: str, invalid: InvalidPattern) -> Refused:
    return Refused(
        ErrorCode.invalid_regular_expression,
        f"SubscribedTopicRegex {pattern[:100]!r} is not a valid regular expression: {invalid}.",
    )


def _what_is_wrong(event: ConsumerHeartbeat) -> str | None:
    joins = event.member_epoch == JOINING_EPOCH
    is_away = event.member_epoch == LEAVING_STATIC_EPOCH
    owned, names = event.owned_partitions, event.subscribed_topic_names
    says = (event.member_id, event.instance_id or "", event.rack_id or "", *(names or ()))
    rules = {
        "InstanceId can't be empty.": event.instance_id == "",
        "RackId can't be empty.": event.rack_id == "",
        f"It says more than {MAX_MEMBER_BYTES} bytes of itself.": (
            bytes_of(says) > MAX_MEMBER_BYTES
        ),
        "MemberEpoch is invalid.": event.member_epoch < LEAVING_STATIC_EPOCH,
        "MemberId can't be empty.": not joins and not event.member_id,
        "InstanceId can't be null.": is_away and event.instance_id is None,
        "RebalanceTimeoutMs must be provided in first request.": (
            joins and event.rebalance_timeout_ms < 0
        ),
        "TopicPartitions must be empty when (re-)joining.": (
            joins and (owned is None or len(owned) > 0)
        ),
        "SubscribedTopicNames or SubscribedTopicRegex must be set in first request.": (
            joins and names is None and event.subscribed_topic_regex is None
        ),
    }
    return next((message for message, broken in rules.items() if broken), None)


REJOIN: Final = "The member must abandon all its partitions and rejoin."


def check_epoch(member: Member, event: ConsumerHeartbeat) -> None:
    """Check the epoch of a known member that is not joining.

    One who comes with the previous epoch did not get our last answer: it is welcome if it owns
    nothing that it may not hold.

    Raises:
        Refused: FENCED_MEMBER_EPOCH.
    """
    epoch = event.member_epoch
    if epoch in {JOINING_EPOCH, member.member_epoch}:
        return
    if epoch > member.member_epoch:
        raise Refused(
            ErrorCode.fenced_member_epoch,
            f"The consumer group member has a greater member epoch ({epoch}) than the one known by"
            f" the group coordinator ({member.member_epoch}). {REJOIN}",
        )
    owned = event.owned_partitions
    if epoch != member.previous_epoch or owned is None or not member.assigned.issuperset(owned):
        raise Refused(
            ErrorCode.fenced_member_epoch,
            f"The consumer group member has a smaller member epoch ({epoch}) than the one known by"
            f" the group coordinator ({member.member_epoch}). {REJOIN}",
        )
