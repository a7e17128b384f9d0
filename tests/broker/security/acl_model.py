"""ACLs and questions by chance, and what a plain reading of Kafka's rules says of them."""

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Final

from protocol.acl import (
    AccessRule,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)

TYPES: Final = (ResourceType.TOPIC, ResourceType.GROUP)
NAMES: Final = ("a", "ab", "abc", "b", "ba", "*", "*a", "hardcode", "hard", "A", "é", "a b")
PRINCIPALS: Final = ("User:alice", "User:bob", "User:*", "Group:alice", "user:alice", "User:a:b")
USERS: Final = ("alice", "bob", "root", "a:b", "")
"""Not *: the authorizer of Kafka 4.3.1 raises for a user of that name, whatever it asks."""

HOSTS: Final = ("*", "127.0.0.1", "10.0.0.1", "0:0:0:0:0:0:0:1", "example.com")
CLIENT_HOSTS: Final = ("127.0.0.1", "10.0.0.1", "10.0.0.11", "0:0:0:0:0:0:0:1")
OPERATIONS: Final = tuple(sorted(set(Operation) - {Operation.ANY}))
SUPER_USER: Final = "User:root"

_IMPLYING_DESCRIBE: Final = (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Whether somebody may do something.

    Attributes:
        user: without its type.
    """

    user: str
    host: str
    operation: Operation
    resource_type: ResourceType
    name: str


def some_acl(chance: Random) -> Acl:
    """Return an ACL; denials are rarer than what allows."""
    pattern = ResourcePattern(
        chance.choice(TYPES),
        chance.choice((PatternType.LITERAL, PatternType.PREFIXED)),
        chance.choice(NAMES),
    )
    permission = Permission.DENY if chance.random() < 0.25 else Permission.ALLOW
    operation = chance.choice((*OPERATIONS, Operation.ALL, Operation.WRITE, Operation.DESCRIBE))
    host = chance.choice((*HOSTS, "*", "*", "*"))
    return Acl(pattern, AccessRule(chance.choice(PRINCIPALS), host, operation, permission))


def some_question(chance: Random) -> Question:
    """Return a question; nobody asks for all operations at once."""
    return Question(
        user=chance.choice(USERS),
        host=chance.choice(CLIENT_HOSTS),
        operation=chance.choice(sorted(set(OPERATIONS) - {Operation.ALL})),
        resource_type=chance.choice(TYPES),
        name=chance.choice((*NAMES, "abcd", "hardcoded", "c")),
    )


def plain_decision(acls: Iterable[Acl], asked: Question, *, allow_everyone: bool) -> bool:
    """Return what the rules say, as they are written down."""
    if f"User:{asked.user}" == SUPER_USER:
        return True
    covering = [acl.rule for acl in acls if _covers(acl.pattern, asked)]
    if not covering:
        return allow_everyone
    meant = [rule for rule in covering if _means(rule, asked)]
    if any(rule.permission is Permission.DENY and _names(rule, asked) for rule in meant):
        return False
    return any(rule.permission is Permission.ALLOW and _gives(rule, asked) for rule in meant)


def _covers(pattern: ResourcePattern, asked: Question) -> bool:
    if pattern.resource_type is not asked.resource_type:
        return False
    if pattern.pattern_type is PatternType.PREFIXED:
        return asked.name.startswith(pattern.name)
    return pattern.name in ("*", asked.name)


def _means(rule: AccessRule, asked: Question) -> bool:
    principals = (f"User:{asked.user}", "User:*")
    return rule.principal in principals and rule.host in ("*", asked.host)


def _names(rule: AccessRule, asked: Question) -> bool:
    return rule.operation in (Operation.ALL, asked.operation)


def _gives(rule: AccessRule, asked: Question) -> bool:
    if asked.operation is Operation.DESCRIBE and rule.operation in _IMPLYING_DESCRIBE:
        return True
    if asked.operation is Operation.DESCRIBE_CONFIGS:
        return _names(rule, asked) or rule.operation is Operation.ALTER_CONFIGS
    return _names(rule, asked)
