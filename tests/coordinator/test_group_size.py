"""What members say of themselves is kept, told to their leader and saved: it has a limit in all."""

from dataclasses import replace

import pytest
from kio.schema.errors import ErrorCode

from coordinator.answers import JoinAnswer
from coordinator.config import MAX_SAID_BYTES
from coordinator.effects import Reply
from coordinator.events import Join, Leave, LeavingMember, Protocol
from coordinator.group import Group
from tests.coordinator.classic_world import Runner
from tests.coordinator.test_member_ids import METADATA, heartbeat

MEMBERS = 16
NAME = "range"


def join(*, size: int = MAX_SAID_BYTES // MEMBERS, member_id: str = "") -> Join:
    """Return the request of one who says so many bytes."""
    rest = Protocol(name="other", metadata=bytes(size - len(NAME + "other") - len(METADATA)))
    return Join(
        token=object(),
        member_id=member_id,
        instance_id=None,
        client_id="c",
        client_host="/h",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[Protocol(name=NAME, metadata=METADATA), rest],
        needs_member_id=False,
        skips_assignment=True,
    )


def is_refused(group: Group, event: Join) -> bool:
    """Whether one who joins is told that there is no room, and not to wait, or who leads."""
    effects = group.handle(event, now_ms=0)
    answers = [one.answer for one in effects if isinstance(one, Reply) and one.token is event.token]
    return [answer.error_code for answer in answers if isinstance(answer, JoinAnswer)] == [
        ErrorCode.group_max_size_reached
    ]


def new_group(*, is_consumer_group: bool) -> Group:
    group = Group("g", Runner(initial_rebalance_delay_ms=0, max_size=100).config)
    group.start(now_ms=0)
    if is_consumer_group:
        group.handle(heartbeat(), now_ms=0)
    return group


@pytest.mark.parametrize("is_consumer_group", [False, True])
@pytest.mark.parametrize("needs_member_id", [False, True])
def test_nobody_joins_who_says_more_than_there_is_room_for(
    *, is_consumer_group: bool, needs_member_id: bool
) -> None:
    # Given a group, classic or not, whose members say as much of themselves as they may
    group = new_group(is_consumer_group=is_consumer_group)
    for _ in range(MEMBERS):
        assert not is_refused(group, join())
    others = group.member_count - MEMBERS

    # When one more joins, then it is refused, and nothing else has changed
    late = replace(join(size=1_000), needs_member_id=needs_member_id)
    assert is_refused(group, late)
    assert group.member_count == MEMBERS + others

    # When a member has left, then there is room
    group.handle(
        Leave(token=0, members=[LeavingMember(member_id="c-1", instance_id=None)]), now_ms=0
    )
    assert not is_refused(group, replace(late, needs_member_id=False))
    assert group.member_count == MEMBERS + others


def test_a_member_may_say_something_else_but_not_more() -> None:
    # Given a group whose members say as much of themselves as they may
    group = new_group(is_consumer_group=False)
    for _ in range(MEMBERS):
        assert not is_refused(group, join())

    # When one joins again with less, then there is room for another
    assert not is_refused(group, join(member_id="c-1", size=1_000))
    assert not is_refused(group, join(size=1_000))

    # But not for more from one who is there
    assert is_refused(group, join(member_id="c-1"))
    assert group.member_count == MEMBERS + 1
