"""What the ACL APIs ask for: ACLs to create, and filters of those to show or to delete."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker.refusals import Refusal
from broker.security.acl_index import AclIndex
from broker.security.acl_rules import PatternRules
from broker.security.acls import MAX_HOST_LENGTH, MAX_NAME_LENGTH, MAX_PRINCIPAL_LENGTH
from protocol.acl import (
    CLUSTER_NAME,
    WILDCARD,
    AccessRule,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from protocol.errors import MalformedRequest

_PATTERN_TYPES: Final = (PatternType.LITERAL, PatternType.PREFIXED)
_PERMISSIONS: Final = (Permission.DENY, Permission.ALLOW)
_UNKNOWN: Final = 0

MANY: Final = 500
"""To look at more ACLs, or to describe them, takes long enough that other requests would wait."""

Found = Sequence[tuple[ResourcePattern, list[AccessRule]]]


def no_authorizer() -> Refusal:
    """Return what the ACL APIs answer while no ACLs decide."""
    return Refusal(ErrorCode.security_disabled, "No authorizer is configured.")


def check_known(*numbers: int) -> None:
    """Check the numbers that tell the kinds of a request's ACL.

    Raises:
        MalformedRequest: 0 stands for what a client has read and not understood; nobody may ask it.
    """
    if _UNKNOWN in numbers:
        raise MalformedRequest("an ACL has an unknown element")


def read_creation(asked: Any) -> Acl:
    """Return the ACL that an AclCreation stands for.

    Any operation is taken for any resource, as in Kafka: what makes no sense allows nothing.

    Raises:
        Refusal: INVALID_REQUEST; there can be no such ACL.
    """
    kinds = (
        ("resource type", asked.resource_type, set(ResourceType) - {ResourceType.ANY}),
        ("pattern type", asked.resource_pattern_type, _PATTERN_TYPES),
        ("operation", asked.operation, set(Operation) - {Operation.ANY}),
        ("permission type", asked.permission_type, _PERMISSIONS),
    )
    for what, number, known in kinds:
        if number not in known:
            raise _invalid(f"An ACL cannot have {what} {number}.")
    pattern = ResourcePattern(
        ResourceType(asked.resource_type),
        PatternType(asked.resource_pattern_type),
        asked.resource_name,
    )
    rule = AccessRule(
        asked.principal,
        asked.host,
        Operation(asked.operation),
        Permission(asked.permission_type),
    )
    if problem := _pattern_problem(pattern) or _rule_problem(rule):
        raise _invalid(problem)
    return Acl(pattern, rule)


def _pattern_problem(pattern: ResourcePattern) -> str:
    if pattern.resource_type is ResourceType.CLUSTER and pattern.name != CLUSTER_NAME:
        return f"The cluster has no other name than {CLUSTER_NAME}."
    if not pattern.name:
        return "A resource has a name."
    if len(pattern.name) > MAX_NAME_LENGTH:
        return f"The name of a resource has at most {MAX_NAME_LENGTH} characters."
    return ""


def _rule_problem(rule: AccessRule) -> str:
    if ":" not in rule.principal:
        return "A principal is a type, a colon and a name, such as User:alice."
    if len(rule.principal) > MAX_PRINCIPAL_LENGTH:
        return f"A principal has at most {MAX_PRINCIPAL_LENGTH} characters."
    if len(rule.host) > MAX_HOST_LENGTH:
        return f"A host has at most {MAX_HOST_LENGTH} characters."
    return ""


def _invalid(message: str) -> Refusal:
    return Refusal(ErrorCode.invalid_request, message)


@dataclass(frozen=True, slots=True, kw_only=True)
class AclFilter:
    """Which ACLs are meant; None, and ANY, are all.

    Attributes:
        resource_type, pattern_type, operation, permission: numbers of a request. One that nothing
            has finds nothing.
        name: with the pattern type MATCH, the name of a resource that the patterns cover.
    """

    resource_type: int
    pattern_type: int
    name: str | None
    principal: str | None
    host: str | None
    operation: int
    permission: int

    @classmethod
    def of(cls, asked: Any) -> "AclFilter":
        """Return the filter of a DescribeAcls request, or one of a DeleteAcls request.

        Raises:
            MalformedRequest: see `check_known`.
        """
        numbers = (
            asked.resource_type_filter,
            asked.pattern_type_filter,
            asked.operation,
            asked.permission_type,
        )
        check_known(*numbers)
        return cls(
            resource_type=numbers[0],
            pattern_type=numbers[1],
            name=asked.resource_name_filter,
            principal=asked.principal_filter,
            host=asked.host_filter,
            operation=numbers[2],
            permission=numbers[3],
        )

    def check(self) -> None:
        """Check that it means what this version knows, before anything is deleted by it.

        Raises:
            Refusal: INVALID_REQUEST.
        """
        for what, number, known in (
            ("resource type", self.resource_type, set(ResourceType)),
            ("pattern type", self.pattern_type, set(PatternType)),
            ("operation", self.operation, set(Operation)),
            ("permission type", self.permission, set(Permission)),
        ):
            if number not in known:
                raise _invalid(f"No ACL can have {what} {number}.")

    async def find(self, acls: AclIndex) -> Found:
        """Return the patterns that match, each with its rules that do, if there are any."""
        patterns = [
            each
            for resource_type in ResourceType
            if self.resource_type in (ResourceType.ANY, resource_type)
            for each in acls.patterns(resource_type)
        ]
        if len(acls) < MANY:
            return self._found(patterns)
        return await asyncio.to_thread(self._found, patterns)  # rules of a pattern never change

    def _found(self, patterns: Iterable[tuple[ResourcePattern, PatternRules]]) -> Found:
        return [
            (pattern, matching)
            for pattern, rules in patterns
            if self._means(pattern)
            if (matching := [rule for rule in rules if self._means_rule(rule)])
        ]

    def _means(self, pattern: ResourcePattern) -> bool:
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, pattern.pattern_type):
            return False
        if self.name is None or self.name == pattern.name:
            return True
        if self.pattern_type != PatternType.MATCH:
            return False
        if pattern.pattern_type is PatternType.PREFIXED:
            return self.name.startswith(pattern.name)
        return pattern.name == WILDCARD

    def _means_rule(self, rule: AccessRule) -> bool:
        return (
            self.principal in (None, rule.principal)
            and self.host in (None, rule.host)
            and self.operation in (Operation.ANY, rule.operation)
            and self.permission in (Permission.ANY, rule.permission)
        )


def as_acls(found: Found) -> list[Acl]:
    """Return what filters find, one by one."""
    return [Acl(pattern, rule) for pattern, rules in found for rule in rules]
