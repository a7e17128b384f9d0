"""Our decisions are those of a plain reading of the rules, and of Kafka's own authorizer."""

import dataclasses
import itertools
import time
from collections.abc import Iterator, Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.security.acls import acl_changes
from protocol.acl import Acl
from tests.broker.security.acl_model import (
    CLIENT_HOSTS,
    SUPER_USER,
    USERS,
    plain_decision,
    some_acl,
    some_question,
)
from tests.broker.security.acl_world import DESCRIBE, TOPIC, World, allow, decided, put, session
from tests.broker.security.standard_authorizer import StandardAuthorizer, standard_authorizer

SETS = 120
ACLS = 14
QUESTIONS = 60
BEYOND_KAFKA = "*a"
"""In Kafka 4.3.1 the literal ACLs of * do not count for names that begin with it, not even denials;
here they count for all names."""


@pytest.fixture(scope="module")
def standard() -> Iterator[StandardAuthorizer]:
    with standard_authorizer() as running:
        yield running


@pytest.mark.parametrize("allow_everyone", [False, True])
def test_decisions_are_those_of_apache_kafka(
    standard: StandardAuthorizer, *, allow_everyone: bool
) -> None:
    chance = Random(20260607 + allow_everyone)
    allowed = 0
    for number in range(SETS):
        # Given ACLs by chance, few or many
        acls = list({some_acl(chance) for _ in range(chance.randrange(ACLS))})
        world = World(allow_everyone=allow_everyone, super_users=(SUPER_USER,))
        put(world, acls)
        questions = [some_question(chance) for _ in range(QUESTIONS)]
        questions = [asked for asked in questions if asked.name != BEYOND_KAFKA]

        # When both decide, then they agree, whatever is asked
        ours = decided(world, questions)
        kafkas = standard.decisions(acls, questions, allow_everyone=allow_everyone)
        differing = [
            (asked, our, their)
            for asked, our, their in zip(questions, ours, kafkas, strict=True)
            if our != their
        ]
        assert not differing, (number, acls, differing[:3])
        allowed += sum(our[0] for our in ours)
    assert SETS * QUESTIONS * 0.1 < allowed < SETS * QUESTIONS * 0.9


@given(seed=st.integers(0, 1 << 32), count=st.integers(0, 30), allow_everyone=st.booleans())
def test_decisions_are_what_the_rules_say(seed: int, count: int, *, allow_everyone: bool) -> None:
    chance = Random(seed)
    acls = [some_acl(chance) for _ in range(count)]
    world = World(allow_everyone=allow_everyone, super_users=(SUPER_USER,))
    put(world, acls)
    for _ in range(20):
        asked = some_question(chance)
        ours = decided(world, [asked])[0][0]
        assert ours is plain_decision(acls, asked, allow_everyone=allow_everyone), asked


@given(seed=st.integers(0, 1 << 32), count=st.integers(0, 8), allow_everyone=st.booleans())
def test_clients_of_one_kind_may_do_the_same(
    seed: int, count: int, *, allow_everyone: bool
) -> None:
    chance = Random(seed)
    world = World(allow_everyone=allow_everyone, super_users=(SUPER_USER,))
    put(world, [some_acl(chance) for _ in range(count)])
    asked = some_question(chance)
    may: dict[object, set[bool]] = {}
    for user, host in itertools.product(USERS, CLIENT_HOSTS):
        kind = world.authorizer.kind_of(session(user, host), asked.resource_type)
        one = dataclasses.replace(asked, user=user, host=host)
        may.setdefault(kind, set()).add(decided(world, [one])[0][0])
    assert all(len(decisions) == 1 for decisions in may.values()), asked


def test_clients_are_of_one_kind_unless_rules_tell_them_apart() -> None:
    # Given rules that name users, and one that names a host
    world = World(super_users=(SUPER_USER,))
    put(world, [allow("t", principal="User:*"), allow("t"), allow("s", principal="User:bob")])
    put(world, [allow("h", principal="User:bob", host="::ffff:10.0.0.1")])

    def kind(user: str, host: str) -> object:
        return world.authorizer.kind_of(session(user, host), TOPIC)

    # Then hosts count for the one who is named with one, and so do users who are named
    assert kind("alice", "10.0.0.1") == kind("alice", "10.0.0.2")
    assert kind("bob", "10.0.0.1") != kind("bob", "10.0.0.2") == kind("bob", "10.0.0.3")
    assert kind("carol", "10.0.0.1") == kind("dave", "10.0.0.2") != kind("alice", "10.0.0.2")
    assert kind("root", "10.0.0.1") not in (kind("carol", "10.0.0.1"), kind("alice", "10.0.0.1"))

    # When no rule names a host any more, then none counts
    world.authorizer.acls.put("topic:literal:h", ())
    assert kind("bob", "10.0.0.1") == kind("bob", "10.0.0.2")


@given(seed=st.integers(0, 1 << 32))
def test_acls_that_come_and_go_leave_no_trace(seed: int) -> None:
    # Given ACLs of which some were stored and deleted, pattern by pattern
    chance = Random(seed)
    acls = {some_acl(chance) for _ in range(20)}
    kept = {acl for acl in acls if chance.random() < 0.5}
    worn, new = World(), World()
    put(worn, list(acls))
    for change in acl_changes(created=acls):
        remaining = acl_changes(created=list(kept))
        rules = {one.entity: one.changes for one in remaining}.get(change.entity, {})
        worn.authorizer.acls.put(change.entity.name, rules)
    put(new, list(kept))

    # Then decisions are those of one that never knew the others
    questions = [some_question(chance) for _ in range(20)]
    assert decided(worn, questions) == decided(new, questions)
    assert len(worn.authorizer.acls) == len(kept)


def many(count: int) -> list[Acl]:
    """Return ACLs of other users, a third of them with prefixes of all lengths."""
    return [
        allow(
            f"{'p' * (number % 200)}{number}-", principal=f"User:u{number}", prefixed=not number % 3
        )
        for number in range(count)
    ]


def per_decision_us(world: World, names: Sequence[str]) -> float:
    began_s = time.perf_counter()
    for name in names:
        world.authorizer.allows(WHO, DESCRIBE, TOPIC, name)
    return (time.perf_counter() - began_s) / len(names) * 1e6


WHO = session()


@pytest.mark.alone
def test_a_decision_takes_microseconds_among_ten_thousand_acls() -> None:
    # Given few and many ACLs
    few, crowd = World(), World()
    put(few, [allow("orders-", prefixed=True), *many(100)])
    put(crowd, [allow("orders-", prefixed=True), *many(10_000)])
    rounds = [[f"orders-{at}-{number}" for number in range(2_000)] for at in range(5)]

    # When new questions are decided, and then remembered ones
    new_us = {
        len(world.authorizer.acls): min(per_decision_us(world, names) for names in rounds)
        for world in (few, crowd)
    }
    names = rounds[-1]
    remembered_us = min(per_decision_us(crowd, names) for _ in range(5))
    print(f"{new_us=} {remembered_us=:.2f}")  # noqa: T201

    # Then neither takes long, and how many ACLs others have makes no difference
    assert remembered_us < 3
    assert max(new_us.values()) < 200
    assert new_us[10_001] < 4 * new_us[101] + 20
