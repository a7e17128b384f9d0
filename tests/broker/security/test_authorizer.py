"""Who may do what, and when a change of ACLs counts."""

import pytest
from structlog.testing import capture_logs

from broker.configs.entity_configs import EntityConfigs
from broker.security.acl_requests import MANY, AclFilter, as_acls
from broker.security.acls import acl_changes
from broker.security.authorizer import MAX_DECISIONS
from broker.security.topic_access import VisibleTopics
from protocol.acl import Acl, Operation, PatternType, Permission, ResourcePattern, ResourceType
from storage.metadata.entity_configs import Entity, EntityChange, EntityKind
from tests.broker.security.acl_model import SUPER_USER
from tests.broker.security.acl_world import TOPIC, WRITE, World, allow, put, session


async def test_a_change_counts_at_once() -> None:
    world = World()
    assert not world.allows("orders")
    await world.create(allow("orders"))
    assert world.allows("orders")
    assert not world.allows("orders", WRITE)
    await world.create(allow("ord", prefixed=True, permission=Permission.DENY))
    assert not world.allows("orders")
    await world.delete(allow("ord", prefixed=True, permission=Permission.DENY), allow("orders"))
    assert not world.allows("orders")
    assert len(world.authorizer.acls) == 0


async def test_what_another_broker_stored_counts_with_the_next_poll() -> None:
    # Given a decision that was made, and remembered
    world = World()
    assert not world.allows("orders")

    # When another broker on the same store creates an ACL
    await EntityConfigs(world.configs._store).alter(acl_changes(created=[allow("orders")]))

    # Then it counts after the next load, not before
    assert not world.allows("orders")
    await world.configs.refresh()
    assert world.allows("orders")


@pytest.mark.parametrize(
    ("acl_host", "host", "allowed"),
    [
        ("::1", "::1", True),
        ("0:0:0:0:0:0:0:1", "::1", True),
        ("2001:DB8::0001", "2001:db8::1", True),
        ("192.0.2.1", "::ffff:192.0.2.1", True),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("fe80::1", "fe80::1%eth0", True),
        ("fe80::1%eth0", "fe80::1%eth1", False),
        ("fe80::1%eth0", "fe80::1", False),
        ("192.0.2.1", "192.0.2.10", False),
        ("example.com", "192.0.2.1", False),
        ("", "192.0.2.1", False),
    ],
)
async def test_an_address_may_be_written_in_any_of_its_forms(
    acl_host: str, host: str, *, allowed: bool
) -> None:
    world = World()
    await world.create(allow("orders", host=acl_host))
    assert world.allows("orders", of=session(host=host)) is allowed


async def test_super_users_may_do_what_acls_deny() -> None:
    world = World(super_users=("User:alice", "User:CN=admin,O=Example"))
    await world.create(
        allow("*", principal="User:*", operation=Operation.ALL, permission=Permission.DENY)
    )
    assert world.allows("orders")
    assert world.authorizer.allows_any(session(), WRITE, TOPIC)
    assert world.allows("orders", of=session("CN=admin,O=Example"))
    assert not world.allows("orders", of=session("CN=admin"))
    assert not world.allows("orders", of=session("Alice"))


@pytest.mark.parametrize(
    ("pattern", "rule", "closed", "open_still"),
    [
        ("topic:literal:orders", "allow fly * User:alice", ("orders",), ("other",)),
        ("topic:literal:orders", "permit read * User:alice", ("orders",), ("other",)),
        ("topic:literal:orders", "", ("orders",), ("other",)),
        ("topic:prefixed:ord", "deny read", ("orders", "ord"), ("other",)),
        ("topic:regex:o.*", "allow read * User:alice", ("orders", "other"), ()),
        ("topic", "allow read * User:alice", ("orders", "other"), ()),
        ("planet:literal:orders", "deny all * User:*", (), ("orders", "other")),
        ("topic:literal:*", "allow read", ("orders", "other"), ()),
    ],
)
async def test_what_cannot_be_read_opens_nothing(
    pattern: str, rule: str, closed: tuple[str, ...], open_still: tuple[str, ...]
) -> None:
    # Given somebody who may read everything, and a super user
    world = World(allow_everyone=True, super_users=(SUPER_USER,))
    await world.create(allow("*"), allow("orders"))

    # When something is stored beside it that only another version can read
    entity = Entity(EntityKind.ACL, pattern)
    await world.configs.alter([EntityChange(entity=entity, changes={rule: ""})])

    # Then what it may be about is closed for all others than super users, and nothing else is
    for name in closed:
        assert not world.allows(name)
        assert world.allows(name, of=session("root"))
    for name in open_still:
        assert world.allows(name)

    # And once it is gone all is as before
    await world.configs.alter([EntityChange(entity=entity, changes={rule: None})])
    assert world.allows("orders")
    assert world.allows("other")


@pytest.mark.parametrize(
    "pattern", ["topic:prefixed:ord", "topic:literal:orders", "topic:literal:*", "topic:regex:o.*"]
)
async def test_a_closed_resource_counts_for_any_of_its_type(pattern: str) -> None:
    world = World()
    await world.create(allow("orders", operation=WRITE))
    assert world.authorizer.allows_any(session(), WRITE, TOPIC)
    entity = Entity(EntityKind.ACL, pattern)
    await world.configs.alter([EntityChange(entity=entity, changes={"allow fly": ""})])
    assert not world.authorizer.allows_any(session(), WRITE, TOPIC)


async def test_what_is_remembered_is_bounded() -> None:
    world = World()
    await world.create(allow("orders"))
    for number in range(MAX_DECISIONS + 10):
        assert not world.allows(f"t-{number}")
    world.allows("x" * 10_000)
    remembered = world.authorizer._decisions
    assert len(remembered) <= MAX_DECISIONS
    assert all(len(question[-1] or "") < 1_000 for question in remembered)
    assert world.allows("orders")


async def test_a_list_of_any_length_takes_nobody_elses_place() -> None:
    # Given a decision that is remembered
    world = World()
    await world.create(allow("orders", operation=Operation.DESCRIBE))
    assert world.allows("orders", Operation.DESCRIBE)
    remembered = dict(world.authorizer._decisions)

    # When somebody asks for a list of more than can be remembered, or with a pattern
    names = ["orders", *(f"t-{number}" for number in range(MAX_DECISIONS))]
    shown = [name for name in names if world.authorizer.shows(session(), TOPIC, name)]

    visible = VisibleTopics(world.authorizer, "alice", "127.0.0.1")
    matched = [name for name in names if name in visible]

    # Then it has what may be described, and nothing else is remembered for it
    assert shown == matched == ["orders"]
    assert world.authorizer._decisions == remembered


CLUSTER = ResourcePattern(ResourceType.CLUSTER, PatternType.LITERAL, "kafka-cluster")


@pytest.mark.parametrize(
    ("super_users", "operation", "warned"),
    [
        ((), Operation.DESCRIBE, True),
        ((), Operation.ALTER, False),
        ((), Operation.ALL, False),
        (("User:admin",), Operation.DESCRIBE, False),
        (("admin",), Operation.DESCRIBE, True),
    ],
)
async def test_who_locks_everybody_out_is_warned(
    super_users: tuple[str, ...], operation: Operation, *, warned: bool
) -> None:
    world = World(super_users=super_users)
    await world.create(allow("*"), Acl(CLUSTER, allow("*", operation=operation).rule))
    with capture_logs() as lines:
        world.authorizer.warn_of_lockout()
    assert bool(lines) is warned


def test_without_an_authorizer_everybody_may_do_everything() -> None:
    world = World(enabled=False)
    assert world.allows("orders", WRITE)
    assert world.authorizer.allows_any(session(), WRITE, TOPIC)
    with capture_logs() as lines:
        world.authorizer.warn_of_lockout()
    assert not lines


@pytest.mark.parametrize(("name", "count"), [(None, MANY), ("topic-7", 1), ("topic", 0)])
async def test_acls_are_found_among_many(name: str | None, count: int) -> None:
    world = World()
    put(world, [allow(f"topic-{number}") for number in range(MANY)])
    wanted = AclFilter(
        resource_type=ResourceType.ANY,
        pattern_type=PatternType.ANY,
        name=name,
        principal=None,
        host=None,
        operation=Operation.ANY,
        permission=Permission.ANY,
    )
    found = as_acls(await wanted.find(world.authorizer.acls))
    assert len(set(found)) == len(found) == count
    assert all(name in (None, acl.pattern.name) for acl in found)
