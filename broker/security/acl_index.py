"""All ACLs, so that those that count for a resource are found however many others there are.

A name is covered by its literal pattern, by the one for every name, and by prefixed patterns, which
are looked up by the lengths that there are.

Text that this version cannot read closes what it may be about. A pattern of an unknown kind closes
all resources of its type; what is about an unknown type is about none that this version has. See
`PatternRules` for rules.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Set
from typing import Final

import structlog

from broker.security.acl_rules import Decision, PatternRules
from broker.security.acls import UnreadableAcl, read_pattern, read_resource_type
from protocol.acl import (
    WILDCARD,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)

log = structlog.get_logger()

_BY_WEIGHT: Final = (Decision.DENIED, Decision.ALLOWED, Decision.UNTOLD)


class AclIndex:
    """The patterns of all types of resources."""

    def __init__(self) -> None:
        self._of_type = {resource_type: _Patterns() for resource_type in ResourceType}

    def __len__(self) -> int:
        """Return the number of ACLs that can be read."""
        return sum(one.count for one in self._of_type.values())

    def put(self, stored: str, rules: Iterable[str]) -> None:
        """Replace all rules of a pattern; both as they are stored."""
        try:
            pattern = read_pattern(stored)
        except UnreadableAcl as unreadable:
            self._close(stored, rules, unreadable)
        else:
            self._of_type[pattern.resource_type].put(pattern, PatternRules(stored, rules))

    def _close(self, stored: str, rules: Iterable[str], unreadable: UnreadableAcl) -> None:
        resource_type = read_resource_type(stored)
        closed = set() if resource_type is None else self._of_type[resource_type].unreadable
        closed.discard(stored)
        if any(True for _ in rules):
            closed.add(stored)
            log.warning(
                "ACLs cannot be read: closed",
                resources=resource_type.name if resource_type else "of an unknown type",
                reason=str(unreadable),
            )

    def gives(self, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether an ACL allows anybody that operation on anything of the type."""
        return any(
            rule.permission is Permission.ALLOW and rule.operation in (operation, Operation.ALL)
            for _, rules in self.patterns(resource_type)
            for rule in rules
        )

    def patterns(
        self, resource_type: ResourceType
    ) -> Iterable[tuple[ResourcePattern, PatternRules]]:
        """Return the rules of each pattern of a type."""
        return self._of_type[resource_type].all()

    def rules(self, pattern: ResourcePattern) -> PatternRules | None:
        """Return the rules of a pattern, if there are any."""
        return self._of_type[pattern.resource_type].of(pattern)

    def decide(
        self,
        principals: Iterable[str],
        hosts: Set[str],
        asked: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> Decision:
        """Say what ACLs come to for a resource; see `PatternRules.decide`."""
        return self._of_type[resource_type].decide(principals, hosts, asked, name)

    def about(
        self, principals: Iterable[str], hosts: Set[str], resource_type: ResourceType
    ) -> Set[tuple[str, str]]:
        """Return by which principals and hosts any rule of the type is about a client."""
        return self._of_type[resource_type].about(principals, hosts)

    def allows_any(
        self,
        principals: Iterable[str],
        hosts: Set[str],
        asked: Operation,
        resource_type: ResourceType,
    ) -> bool:
        """Whether some resource of the type is allowed, as far as patterns tell (KIP-679).

        A pattern that allows counts, unless a denial covers all of it.
        """
        return self._of_type[resource_type].allows_any(principals, hosts, asked)


class _Patterns:
    """The patterns of one type of resource.

    Attributes:
        count: rules that can be read.
        unreadable: stored patterns that this version does not know.
    """

    def __init__(self) -> None:
        self.count = 0
        self.unreadable: set[str] = set()
        self._literal: dict[str, PatternRules] = {}
        self._prefixed: dict[str, PatternRules] = {}
        self._lengths: Counter[int] = Counter()
        self._naming: dict[str, set[ResourcePattern]] = {}
        self._clients: Counter[tuple[str, str]] = Counter()

    def put(self, pattern: ResourcePattern, rules: PatternRules) -> None:
        """Replace all rules of a pattern."""
        of_kind = self._of_kind(pattern)
        if (old := of_kind.pop(pattern.name, None)) is not None:
            self._count(pattern, old, -1)
            for principal in old.principals:
                self._naming[principal].remove(pattern)
                if not self._naming[principal]:
                    del self._naming[principal]
        if rules:
            of_kind[pattern.name] = rules
            self._count(pattern, rules, 1)
            for principal in rules.principals:
                self._naming.setdefault(principal, set()).add(pattern)

    def _count(self, pattern: ResourcePattern, rules: PatternRules, step: int) -> None:
        self.count += step * sum(1 for _ in rules)
        for client in rules.clients:
            self._clients[client] += step
            if not self._clients[client]:
                del self._clients[client]
        if pattern.pattern_type is PatternType.PREFIXED:
            length = len(pattern.name)
            self._lengths[length] += step
            if not self._lengths[length]:
                del self._lengths[length]

    def all(self) -> Iterable[tuple[ResourcePattern, PatternRules]]:
        named = set().union(*self._naming.values())
        return [(pattern, self._of_kind(pattern)[pattern.name]) for pattern in named]

    def of(self, pattern: ResourcePattern) -> PatternRules | None:
        return self._of_kind(pattern).get(pattern.name)

    def decide(
        self, principals: Iterable[str], hosts: Set[str], asked: Operation, name: str
    ) -> Decision:
        if self.unreadable:
            return Decision.DENIED
        decisions = {rules.decide(principals, hosts, asked) for rules in self._covering(name)}
        return next((one for one in _BY_WEIGHT if one in decisions), Decision.NO_ACLS)

    def about(self, principals: Iterable[str], hosts: Set[str]) -> Set[tuple[str, str]]:
        clients = ((principal, host) for principal in principals for host in hosts)
        return frozenset(client for client in clients if client in self._clients)

    def allows_any(self, principals: Iterable[str], hosts: Set[str], asked: Operation) -> bool:
        everything = self._literal.get(WILDCARD)
        if self.unreadable or (everything and everything.denies(principals, hosts, asked)):
            return False
        for pattern in set().union(*(self._naming.get(one, ()) for one in principals)):
            rules = self._of_kind(pattern)[pattern.name]
            if not rules.allows(principals, hosts, asked):
                continue
            covering = () if rules is everything else (rules, *self._prefixes_of(pattern.name))
            if not any(one.denies(principals, hosts, asked) for one in covering):
                return True
        return False

    def _covering(self, name: str) -> Iterator[PatternRules]:
        for literal in {name, WILDCARD}:
            if literal in self._literal:
                yield self._literal[literal]
        yield from self._prefixes_of(name)

    def _prefixes_of(self, name: str) -> Iterator[PatternRules]:
        for length in self._lengths:
            prefix = name[:length]
            if len(prefix) == length and prefix in self._prefixed:
                yield self._prefixed[prefix]

    def _of_kind(self, pattern: ResourcePattern) -> dict[str, PatternRules]:
        return self._prefixed if pattern.pattern_type is PatternType.PREFIXED else self._literal
