"""ACLs in the words and numbers of Kafka's protocol (KIP-11, KIP-140, KIP-290, KIP-373)."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the one resource of type CLUSTER."""

WILDCARD: Final = "*"
"""Any name of a literal pattern, any host, and, behind User:, any user."""

USER_TYPE: Final = "User"
"""The type of every principal here: User:alice."""


class ResourceType(IntEnum):
    """What may be accessed. ANY stands in filters only."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How a pattern's name is meant. ANY and MATCH stand in filters only."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """What may be done. ANY stands in filters only."""

    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    """Whether an ACL allows or denies. ANY stands in filters only."""

    ANY = 1
    DENY = 2
    ALLOW = 3


@dataclass(frozen=True, slots=True)
class ResourcePattern:
    """The resources of an ACL: one of that name, or all that begin with it.

    Attributes:
        pattern_type: LITERAL or PREFIXED.
        name: WILDCARD, if it is literal, is every name.
    """

    resource_type: ResourceType
    pattern_type: PatternType
    name: str


@dataclass(frozen=True, slots=True)
class AccessRule:
    """Who may, or may not, do what with the resources of a pattern: the rest of an ACL.

    Attributes:
        principal: such as User:alice; User:* is everybody.
        host: an ip address, or WILDCARD.
    """

    principal: str
    host: str
    operation: Operation
    permission: Permission


@dataclass(frozen=True, slots=True)
class Acl:
    """One ACL: Kafka's AclBinding."""

    pattern: ResourcePattern
    rule: AccessRule
