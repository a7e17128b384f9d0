"""ACLs as they are stored: Entity(EntityKind.ACL, a pattern), with one config for each rule.

The pattern is TYPE:PATTERN:NAME, such as topic:prefixed:orders-, and the rule is the config's name,
PERMISSION OPERATION HOST PRINCIPAL, such as "allow read * User:alice"; its value is empty. What a
client may choose freely stands last, where it may hold anything; a host is quoted as in a URL.

What this version cannot read must never let anybody do anything: see
`broker/security/acl_index.py`.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final, TypeVar
from urllib.parse import quote, unquote

from protocol.acl import (
    AccessRule,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from storage.metadata.entity_configs import Entity, EntityChange, EntityKind

MAX_NAME_LENGTH: Final = 512
"""Characters of a resource's name: those of the longest that there can be, a group id."""

MAX_PRINCIPAL_LENGTH: Final = 1024
MAX_HOST_LENGTH: Final = 255

MAX_ACLS: Final = 20_000
"""Of all resources; every broker has them in memory."""

MAX_ACLS_PER_RESOURCE: Final = 5_000
"""They are one row in Postgres, which each change writes anew."""

RULE_VALUE: Final = ""

_PLAIN_IN_HOST: Final = ":*"

Kind = TypeVar("Kind", bound=IntEnum)


class UnreadableAcl(ValueError):
    """A stored text that this version has no meaning for."""


def pattern_text(pattern: ResourcePattern) -> str:
    """Return the name of the entity that has the pattern's rules."""
    return f"{_word(pattern.resource_type)}:{_word(pattern.pattern_type)}:{pattern.name}"


def read_pattern(text: str) -> ResourcePattern:
    """Return the pattern of an entity's name.

    Raises:
        UnreadableAcl: it has none that this version knows.
    """
    resource_type = read_resource_type(text)
    _, _, rest = text.partition(":")
    word, colon, name = rest.partition(":")
    pattern_type = _PATTERN_TYPES.get(word)
    if resource_type is None or pattern_type is None or not colon:
        raise UnreadableAcl(f"{text!r} is no pattern of resources")
    return ResourcePattern(resource_type, pattern_type, name)


def read_resource_type(text: str) -> ResourceType | None:
    """Return what an entity's name is about, whether its pattern can be read or not."""
    return _RESOURCE_TYPES.get(text.partition(":")[0])


def rule_text(rule: AccessRule) -> str:
    """Return the name of the config that stands for a rule."""
    host = quote(rule.host, safe=_PLAIN_IN_HOST)
    return f"{_word(rule.permission)} {_word(rule.operation)} {host} {rule.principal}"


def read_rule(text: str) -> AccessRule:
    """Return the rule that a config's name stands for.

    Raises:
        UnreadableAcl: it is none that this version knows.
    """
    words = text.split(" ", 3)
    if len(words) != 4 or words[0] not in _PERMISSIONS or words[1] not in _OPERATIONS:
        raise UnreadableAcl(f"{text!r} is no rule of an ACL")
    permission, operation, host, principal = words
    return AccessRule(principal, unquote(host), _OPERATIONS[operation], _PERMISSIONS[permission])


def acl_changes(created: Iterable[Acl] = (), deleted: Iterable[Acl] = ()) -> list[EntityChange]:
    """Return the changes that create and delete ACLs."""
    changes: dict[ResourcePattern, dict[str, str | None]] = {}
    for acl in created:
        changes.setdefault(acl.pattern, {})[rule_text(acl.rule)] = RULE_VALUE
    for acl in deleted:
        changes.setdefault(acl.pattern, {})[rule_text(acl.rule)] = None
    return [
        EntityChange(entity=Entity(EntityKind.ACL, pattern_text(pattern)), changes=rules)
        for pattern, rules in changes.items()
    ]


def _word(member: IntEnum) -> str:
    return member.name.lower().replace("_", "-")


def _by_word(members: Iterable[Kind]) -> Mapping[str, Kind]:
    return {_word(member): member for member in members}


_RESOURCE_TYPES: Final = _by_word(set(ResourceType) - {ResourceType.ANY})
_PATTERN_TYPES: Final = _by_word((PatternType.LITERAL, PatternType.PREFIXED))
_OPERATIONS: Final = _by_word(set(Operation) - {Operation.ANY})
_PERMISSIONS: Final = _by_word((Permission.ALLOW, Permission.DENY))
