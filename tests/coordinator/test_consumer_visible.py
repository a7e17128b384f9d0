"""Where ACLs decide, a pattern gives a member no topic that it may not know of."""

import json
from dataclasses import replace
from uuid import UUID

import pytest

from coordinator import consumer_visible
from coordinator.answers import ConsumerHeartbeatAnswer
from coordinator.consumer_visible import KEPT_BACK_MS
from tests.coordinator.consumer_simulation import catalog_of
from tests.coordinator.visible_world import Members, World

ONE, TWO, THREE = UUID(int=1), UUID(int=2), UUID(int=3)
CATALOG = catalog_of(1, {"t1": (ONE, 1), "t2": (TWO, 1)})
LATER = catalog_of(2, {"t1": (ONE, 1), "t2": (TWO, 1), "t3": (THREE, 1)})


def held(answer: ConsumerHeartbeatAnswer) -> list[UUID]:
    return [one.topic_id for one in answer.assignment or ()]


def test_each_member_gets_what_it_may_see() -> None:
    world = World(CATALOG)
    assert held(world.beat("a", 0, {"t1"})) == [ONE]
    assert held(world.beat("b", 0, {"t2"})) == [TWO]
    assert held(world.beat("c", 0, frozenset())) == []


SMALL = catalog_of(1, {"t1": (ONE, 6)})
LARGE = catalog_of(2, {"t1": (ONE, 6), "t2": (TWO, 6)})
SMALL_AGAIN = catalog_of(3, {"t1": (ONE, 6)})
LARGE_AGAIN = catalog_of(4, {"t1": (ONE, 6), "t2": (TWO, 6)})


@pytest.mark.parametrize("is_told", [True, False])
@pytest.mark.parametrize("moves", [True, False])
def test_a_topic_comes_and_goes_for_all_at_once(is_told: bool, moves: bool) -> None:
    # Given members of two users, one of whom has two
    world = World(SMALL)
    world.rights = {"u": {"t1", "t2"}, "v": {"t1", "t2"}}
    members = Members(world, a="u", b="u", c="v")
    members.beat()
    before, epoch = dict(members.holds), world.epoch
    assert {len(one) for one in before.values()} == {2}

    # When a topic appears, whether the group hears so, a heartbeat does, or who takes it over
    world.catalog = LARGE
    if moves:
        world.move()
    elif is_told:
        world.see(LARGE)
    members.beat()

    # Then all get their shares with one epoch, and keep what they have
    assert world.epoch == epoch + 1
    assert {len(one) for one in members.holds.values()} == {4}
    assert all(before[name] < holds for name, holds in members.holds.items())

    # When it goes, then so it does with one
    world.catalog = SMALL_AGAIN
    if moves:
        world.move()
    elif is_told:
        world.see(SMALL_AGAIN)
    members.beat()
    assert (world.epoch, members.holds) == (epoch + 2, before)


def test_a_new_topic_is_for_those_who_may_see_it() -> None:
    # Given members of two users
    world = World(SMALL)
    world.rights = {"u": {"t1", "t2"}, "v": {"t1"}}
    members = Members(world, a="u", b="v", c="v")
    members.beat()
    epoch = world.epoch

    # When a topic appears that one of them may see, then the members of the other never get it
    world.see(LARGE)
    for _ in range(4):
        members.beat(1)
        assert members.topics()["b"] == members.topics()["c"] == {ONE}
    assert members.topics()["a"] >= {TWO}
    assert world.epoch == epoch + 1

    # When the other may see it instead, then it moves to all of his members with one epoch
    world.rights = {"u": {"t1"}, "v": {"t1", "t2"}}
    members.beat()
    assert members.topics()["a"] == {ONE}
    assert members.topics()["b"] >= {TWO} <= members.topics()["c"]
    assert world.epoch == epoch + 2


def test_a_topic_comes_to_all_at_once_whoever_hears_of_it() -> None:
    # Given members of a user who may know of one of two topics
    world = World(LARGE)
    world.rights = {"u": {"t1"}}
    members = Members(world, a="u", b="u")
    members.beat()

    # When he may know of the other, too, and one who joins is the first to ask
    world.rights = {"u": {"t1", "t2"}}
    epoch = world.epoch
    members.join("c", "u")
    members.beat_one("c")
    first = members.holds["c"]
    assert 0 < len(first) < 6

    # Then that is shared with the epoch that counts it in, and does not move to others afterwards
    assert world.epoch == epoch + 2
    members.beat()
    assert {len(one) for one in members.holds.values()} == {4}
    assert first <= members.holds["c"]
    assert world.epoch == epoch + 2


def test_what_many_may_know_of_is_asked_bit_by_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given members of as many users, and no time to ask for all of them at once
    world = World(LARGE)
    world.rights = {user: {"t1", user} for user in "uvw"}
    members = Members(world, a="u", b="v", c="w")
    members.beat()
    epoch = world.epoch
    monkeypatch.setattr(consumer_visible, "MOST_ASKED", 1)

    # When all may know of a topic, then each heartbeat asks for itself, and for one more
    world.rights = {user: {"t1", "t2", user} for user in "uvw"}
    for name in "abcabc":
        asked = world.visibility.asked
        members.beat_one(name)
        assert world.visibility.asked <= asked + 2 * len(LARGE.by_name)

    # Then it comes to all with one epoch
    members.beat()
    assert world.epoch == epoch + 1
    assert {len(one) for one in members.holds.values()} == {4}

    # When one may not any more, then it loses that at once, whoever else has yet to be asked for
    world.rights["w"] = {"t1", "w"}
    members.beat_one("c")
    assert members.topics()["c"] == {ONE}

    # When another broker takes over, then it does not ask for all at once, either
    asked = world.visibility.asked
    world.move()
    assert world.visibility.asked == asked + len(LARGE.by_name)


def test_what_is_asked_bit_by_bit_makes_no_epoch_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given members of as many users, and no time to ask for all of them at once
    world = World(LARGE)
    world.rights = {user: {"t1", "t2", user} for user in "uvw"}
    members = Members(world, a="u", b="v", c="w")
    members.beat()
    monkeypatch.setattr(consumer_visible, "MOST_ASKED", 1)

    # When a topic is gone as another broker takes over, then one epoch is for all
    epoch = world.epoch
    world.catalog = SMALL_AGAIN
    world.move()
    members.beat()
    assert world.epoch == epoch + 1

    # When topics come, and members say anew what they subscribe to, then too
    world.restates = True
    world.see(LARGE_AGAIN)
    members.beat()
    assert world.epoch == epoch + 2
    assert {len(one) for one in members.holds.values()} == {4}


def test_acls_that_change_all_the_time_keep_topics_back_for_a_while_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given members of as many users, and no time to ask for all of them before ACLs change again
    world = World(LARGE)
    world.rights = {user: {"t1", user} for user in "uvw"}
    members = Members(world, a="u", b="v", c="w")
    members.beat()
    monkeypatch.setattr(consumer_visible, "MOST_ASKED", 1)
    world.rights = {user: {"t1", "t2", user} for user in "uvw"}

    def beat_while_acls_change() -> None:
        for change, name in enumerate("abc" * 6):
            world.rights["x"] = {f"change {change} at {world.now_ms}"}
            members.beat_one(name)

    # When some time has passed, then each gets what its own user may know of
    beat_while_acls_change()
    assert {len(one) for one in members.topics().values()} == {1}
    world.now_ms += KEPT_BACK_MS
    beat_while_acls_change()
    assert set().union(*members.topics().values()) == {ONE, TWO}


def test_a_group_that_rests_gives_nobody_what_its_user_has_lost() -> None:
    # Given a member for whom another one has just given up its share of two topics
    world = World(catalog_of(1, {"t1": (ONE, 1_000), "t2": (TWO, 1_000)}))
    world.rights = {"u": {"t1", "t2"}}
    members = Members(world, a="u", b="u")
    members.beat_one("a")
    world.now_ms += 1_000
    members.beat_one("b")
    members.beat_one("a")
    members.beat_one("a")
    assert members.topics() == {"a": {ONE, TWO}, "b": set()}

    # When their user may know of one of these no more, which the other hears, and the group rests
    world.rights = {"u": {"t1"}}
    members.beat_one("a")
    saved = json.loads(world.saved[-1].document.text)
    assert saved["assignment_epoch"] < world.epoch

    # Then that member does not get it
    members.beat_one("b")
    assert members.topics()["b"] == {ONE}


def test_who_gives_up_partitions_gives_up_at_once_what_its_user_has_lost() -> None:
    # Given a member that has yet to give up a part of two topics for another one
    world = World(catalog_of(1, {"t1": (ONE, 6), "t2": (TWO, 6)}))
    world.rights = {"u": {"t1", "t2"}}
    members = Members(world, a="u", b="u")
    members.beat_one("a")
    members.beat_one("b")
    held = sorted(members.holds["a"])
    members.beat_one("a")
    assert {one.topic_id for one in members.holds["a"]} == {ONE, TWO}

    # When their user may know of one of these no more, which the other hears
    world.rights = {"u": {"t1"}}
    members.beat_one("b")

    # Then it is told with its next heartbeat, whether or not it has given up the others
    answer = world.beat_of("u", "a", members.epochs["a"], *held)
    assert {one.topic_id for one in answer.assignment or ()} == {ONE}


def test_who_rests_gives_up_at_once_what_its_user_has_lost() -> None:
    # Given members that share two topics, for whom the group has just assigned
    world = World(catalog_of(1, {"t1": (ONE, 1_000), "t2": (TWO, 1_000)}))
    world.rights = {"u": {"t1", "t2"}}
    members = Members(world, a="u", b="u")
    members.beat_one("a")
    world.now_ms += 1_000
    members.beat()
    assert members.topics() == {"a": {ONE, TWO}, "b": {ONE, TWO}}

    # When their user may know of one of these no more, which the other hears, and the group rests
    world.rights = {"u": {"t1"}}
    members.beat_one("a")
    saved = json.loads(world.saved[-1].document.text)
    assert saved["assignment_epoch"] < world.epoch

    # Then that member is told, too
    members.beat_one("b")
    assert members.topics()["a"] == members.topics()["b"] == {ONE}


def test_whose_user_nobody_knows_is_shown_nothing_new() -> None:
    # Given a group of two that an older version saved, which wrote down no users
    world = World(SMALL)
    world.rights = {"u": {"t1", "t2"}}
    members = Members(world, a="u", b="u")
    members.beat()
    world.forget_users()

    # When it is taken over, and a topic has appeared, then that waits for the first heartbeat
    epoch = world.epoch
    world.catalog = LARGE
    world.move()
    assert world.epoch == epoch
    members.beat()
    assert members.topics()["a"] | members.topics()["b"] == {ONE, TWO}

    # When it is taken over from such a version again, and a topic has gone, then with one epoch
    world.forget_users()
    epoch = world.epoch
    world.catalog = catalog_of(3, {"t2": (TWO, 6)})
    world.move()
    members.beat()
    assert world.epoch == epoch + 1


def test_what_may_not_be_seen_any_more_is_taken_away() -> None:
    world = World(CATALOG)
    joined = world.beat("a", 0, {"t1", "t2"})
    answer = world.beat("a", joined.member_epoch, {"t2"}, *(joined.assignment or ()))
    assert held(answer) == [TWO]


def test_another_coordinator_knows_who_may_see_what() -> None:
    # Given members of which some may see the same
    world = World(CATALOG)
    world.beat("a", 0, {"t1"})
    world.beat("b", 0, {"t1"})
    joined = world.beat("c", 0, {"t2"})

    # When the group moves, then nothing changes by that
    world.move()
    assert world.epoch == joined.member_epoch
    assert held(world.beat("c", joined.member_epoch, {"t2"}, *(joined.assignment or ()))) == []
    assert world.saved[-1].document.text.count('"t1"') == 1

    # When it moves to a broker without ACLs, then everybody may see all
    world.config = replace(world.config, visible_to=None)
    world.move()
    assert world.epoch == joined.member_epoch + 1
