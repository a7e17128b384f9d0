"""The assignors: properties that hold for any group, and how long a large one takes."""

import time
from collections import Counter
from collections.abc import Sequence
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.assignor_pools import Assignment, AssignorMember, TopicSizes
from coordinator.assignors import ASSIGNORS
from protocol.ids import Partition

TOPICS = [UUID(int=number) for number in range(1, 6)]

Group = tuple[list[AssignorMember], dict[UUID, int]]


@st.composite
def groups(draw: st.DrawFn, *, equal: bool = False) -> Group:
    """Members with targets that may be stale, doubled or not theirs any more."""
    counts = draw(st.lists(st.integers(1, 9), min_size=len(TOPICS), max_size=len(TOPICS)))
    sizes = dict(zip(TOPICS, counts, strict=True))
    subscriptions = st.frozensets(st.sampled_from(TOPICS), max_size=len(TOPICS))
    common = draw(subscriptions)
    partitions = st.builds(Partition, st.sampled_from(TOPICS), st.integers(0, 9))
    members = [
        AssignorMember(
            member_id=f"m{number}",
            instance_id=draw(st.sampled_from([None, f"i{9 - number}"])),
            topic_ids=common if equal else draw(subscriptions),
            target=frozenset(draw(st.sets(partitions, max_size=12))),
        )
        for number in range(draw(st.integers(1, 7)))
    ]
    return members, {t: n for t, n in sizes.items() if any(t in m.topic_ids for m in members)}


def with_targets(members: Sequence[AssignorMember], targets: Assignment) -> list[AssignorMember]:
    return [
        AssignorMember(
            member_id=member.member_id,
            instance_id=member.instance_id,
            topic_ids=member.topic_ids,
            target=targets[member.member_id],
        )
        for member in members
    ]


@pytest.mark.parametrize("name", ASSIGNORS)
@given(group=groups())
@settings(max_examples=40, deadline=None)
def test_every_partition_goes_to_exactly_one_subscriber(name: str, group: Group) -> None:
    members, sizes = group
    result = ASSIGNORS[name](members, sizes)
    assert set(result) == {member.member_id for member in members}
    given_out = Counter(partition for share in result.values() for partition in share)
    assert given_out == Counter(Partition(t, i) for t, count in sizes.items() for i in range(count))
    for member in members:
        assert {partition.topic_id for partition in result[member.member_id]} <= member.topic_ids


@pytest.mark.parametrize("name", ASSIGNORS)
@given(group=groups())
@settings(max_examples=40, deadline=None)
def test_nothing_moves_when_nothing_changed(name: str, group: Group) -> None:
    members, sizes = group
    result = ASSIGNORS[name](members, sizes)
    assert ASSIGNORS[name](with_targets(members, result), sizes) == result


@given(group=groups())
@settings(max_examples=40, deadline=None)
def test_uniform_leaves_no_partition_that_should_move(group: Group) -> None:
    members, sizes = group
    result = ASSIGNORS["uniform"](members, sizes)
    for giver in members:
        for taker in members:
            if len(result[giver.member_id]) > len(result[taker.member_id]) + 1:
                movable = {p for p in result[giver.member_id] if p.topic_id in taker.topic_ids}
                assert not movable


@given(group=groups(equal=True))
@settings(max_examples=40, deadline=None)
def test_uniform_keeps_all_that_an_even_share_allows(group: Group) -> None:
    members, sizes = group
    result = ASSIGNORS["uniform"](members, sizes)
    loads = [len(share) for share in result.values()]
    assert max(loads) - min(loads) <= 1

    valid = {Partition(t, i) for t, count in sizes.items() for i in range(count)}
    claims = Counter(p for member in members for p in member.target & valid)
    sole = {p for p, count in claims.items() if count == 1}
    if sole != set(claims):
        return  # who keeps what two claim is not our question here
    share, extra = divmod(len(valid), len(members))
    had = sorted((len(member.target & valid) for member in members), reverse=True)
    possible = sum(min(count, share + (place < extra)) for place, count in enumerate(had))
    kept = sum(len(result[member.member_id] & member.target & valid) for member in members)
    assert kept == possible


@given(group=groups())
@settings(max_examples=40, deadline=None)
def test_range_gives_runs_and_joins_copartitioned_topics(group: Group) -> None:
    members, sizes = group
    result = ASSIGNORS["range"](members, sizes)
    cuts: dict[tuple[frozenset[str], int], set[tuple[tuple[str, tuple[int, ...]], ...]]] = {}
    for topic_id, count in sizes.items():
        subscribers = [m.member_id for m in members if topic_id in m.topic_ids]
        runs = {
            name: tuple(sorted(p.index for p in result[name] if p.topic_id == topic_id))
            for name in subscribers
        }
        for run in runs.values():
            assert list(run) == list(range(run[0], run[0] + len(run))) if run else True
        lengths = [len(run) for run in runs.values()]
        assert max(lengths) - min(lengths) <= 1
        cuts.setdefault((frozenset(subscribers), count), set()).add(tuple(sorted(runs.items())))
    assert all(len(ways) == 1 for ways in cuts.values())


def test_range_puts_static_members_first_by_instance() -> None:
    # Given a static member whose restart gave it another member id
    topic_id = TOPICS[0]
    first = _member("z", "i1", {topic_id})
    second = _member("a", None, {topic_id})

    # When partitions are assigned before and after the restart
    before = ASSIGNORS["range"]([second, first], {topic_id: 2})
    after = ASSIGNORS["range"]([second, _member("b", "i1", {topic_id})], {topic_id: 2})

    # Then it is as if nothing had happened
    assert before["z"] == after["b"] == {Partition(topic_id, 0)}
    assert before["a"] == after["a"]


def test_uniform_spreads_each_topic() -> None:
    topics = frozenset(TOPICS[:2])
    members = [_member("a", None, topics), _member("b", None, topics)]
    result = ASSIGNORS["uniform"](members, dict.fromkeys(topics, 2))
    for share in result.values():
        assert {p.topic_id for p in share} == topics


@pytest.mark.alone
@pytest.mark.parametrize("name", ASSIGNORS)
@pytest.mark.parametrize("kinds", [1, 2, 1_000])
def test_a_thousand_members_and_ten_thousand_partitions_take_less_than_a_second(
    name: str, kinds: int
) -> None:
    topics = [UUID(int=number) for number in range(1, 101)]
    sizes: TopicSizes = dict.fromkeys(topics, 100)
    subscriptions = [
        frozenset(topics if kinds == 1 else topics[kind % 70 :: 1 + kind % 2])
        for kind in range(kinds)
    ]
    members = [
        AssignorMember(
            member_id=f"m{number:03}",
            instance_id=None,
            topic_ids=subscriptions[number % kinds],
            target=frozenset(),
        )
        for number in range(1_000)
    ]
    sizes = {t: n for t, n in sizes.items() if any(t in s for s in subscriptions)}
    first = ASSIGNORS[name](members, sizes)
    began_s = time.process_time()
    ASSIGNORS[name](with_targets(members, first)[1:], sizes)
    assert time.process_time() - began_s < 1


def _member(
    member_id: str, instance_id: str | None, topic_ids: frozenset[UUID] | set[UUID]
) -> AssignorMember:
    return AssignorMember(
        member_id=member_id,
        instance_id=instance_id,
        topic_ids=frozenset(topic_ids),
        target=frozenset(),
    )
