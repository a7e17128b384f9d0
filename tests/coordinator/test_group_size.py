"""What members say of themselves is kept, told to their leader and saved: it has a limit in all."""

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from kio.schema.errors import ErrorCode

from coordinator.answers import ConsumerHeartbeatAnswer, JoinAnswer
from coordinator.config import MAX_MEMBER_BYTES, MAX_SAID_BYTES
from coordinator.consumer_core import ConsumerCore
from coordinator.effects import Effect, Reply, Save
from coordinator.events import Join, Leave, LeavingMember, Protocol
from coordinator.group import Group
from coordinator.snapshots import Document, GroupSnapshot
from tests.coordinator.classic_world import Runner
from tests.coordinator.test_member_ids import METADATA, heartbeat

MEMBERS = 16
NAME = "range"


def join(*, size: int = MAX_SAID_BYTES // MEMBERS - 50, member_id: str = "") -> Join:
    """Return the request of one who says so many bytes, which leaves room for a few of others."""
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


def names(number: int, size: int = MAX_SAID_BYTES // MEMBERS - 5) -> list[str]:
    """Return names of topics that nobody with another number says; so many bytes in all."""
    return [f"{number:05}{part:05}".ljust(size // 100, ".") for part in range(100)]


def refused(group: Group, member_id: str, subscribed: Sequence[str]) -> str:
    """Let a consumer say what it subscribes to; return how it is refused, if it is."""
    event = replace(
        heartbeat(),
        member_id=member_id,
        subscribed_topic_names=subscribed,
    )
    (answer,) = [one.answer for one in group.handle(event, now_ms=0) if isinstance(one, Reply)]
    assert isinstance(answer, ConsumerHeartbeatAnswer)
    return "" if answer.error_code is ErrorCode.none else answer.error_code.name


def test_no_consumer_joins_who_says_more_than_there_is_room_for() -> None:
    # Given a group whose members say as much of themselves as they may, one of them twice
    group = new_group(is_consumer_group=False)
    for number in range(MEMBERS):
        assert not refused(group, f"m{number}", names(number))
    assert not refused(group, "again", names(0))

    # When one more joins, or one says more, then it is refused, and nothing else has changed
    full = ErrorCode.group_max_size_reached.name
    assert refused(group, "late", names(MEMBERS, size=5_000)) == full
    assert refused(group, "again", names(MEMBERS)) == full
    assert is_refused(group, join(size=5_000))
    assert group.member_count == MEMBERS + 1

    # But each may go on, say something else, or what others say
    assert not refused(group, "m1", names(MEMBERS + 1))
    assert not refused(group, "m2", names(0))
    assert not refused(group, "late", names(MEMBERS, size=5_000))


def test_a_consumer_says_no_more_than_a_member_may() -> None:
    group = new_group(is_consumer_group=False)
    invalid = ErrorCode.invalid_request.name
    assert not refused(group, "m", ["." * (MAX_MEMBER_BYTES - 1)])
    assert (
        refused(group, "m", ["." * (MAX_MEMBER_BYTES // 2), "," * (MAX_MEMBER_BYTES // 2)])
        == invalid
    )


def joined(count: int, subscribed: Sequence[str]) -> GroupSnapshot:
    """Return the group of so many consumers that say the same."""
    group, effects = new_group(is_consumer_group=False), list[Effect]()
    for number in range(count):
        event = replace(heartbeat(), member_id=f"m{number}", subscribed_topic_names=subscribed)
        effects += group.handle(event, now_ms=0)
    return [one.group for one in effects if isinstance(one, Save)][-1]


def test_what_many_consumers_say_is_written_down_once() -> None:
    # Given consumers that all name the thousands of topics that they find by a pattern
    subscribed = [f"prod.region-eu-west-1.service-{number:05}.events" for number in range(5_000)]
    saved = joined(100, subscribed)

    # Then their group is not much larger than what one of them says
    assert len(saved.document.text) < 2_000_000

    # And another coordinator has what each of them says, and writes it the same
    config = Runner(initial_rebalance_delay_ms=0, max_size=10).config
    core = ConsumerCore.restore(saved, config, now_ms=0)
    sets = {id(member.subscription.names): member.subscription.names for member in core.members}
    assert list(sets.values()) == [frozenset(subscribed)]
    assert core.snapshot() == saved


def test_a_group_is_read_as_older_versions_wrote_it() -> None:
    # Given a group whose names are written down with each member, and no sets of them
    subscribed = [f"t{number}" for number in range(1_000)]
    saved = joined(2, subscribed)
    document = json.loads(saved.document.text)
    del document["visible"]
    for member in document["members"]:
        del member["subscribed_topics"], member["visible_topics"]
        member["subscribed_topic_names"] = subscribed
    text = json.dumps(document)

    # When it is restored, then it is the same
    config = Runner(initial_rebalance_delay_ms=0, max_size=10).config
    older = replace(saved, document=Document(lambda: text))
    assert ConsumerCore.restore(older, config, now_ms=0).snapshot() == saved


def test_few_names_are_written_down_with_each_member() -> None:
    # Given a group whose members name few topics: versions that know no sets of names shall read it
    document = json.loads(joined(2, ["t1", "t2"]).document.text)
    assert [one["subscribed_topic_names"] for one in document["members"]] == [["t1", "t2"]] * 2
