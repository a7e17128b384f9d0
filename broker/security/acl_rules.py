"""The rules of one pattern of resources, and what they come to."""

import functools
from collections.abc import Iterable, Iterator, Set
from enum import Enum, auto
from typing import Final

import structlog

from broker.network.hosts import host_form
from broker.security.acls import MAX_ACLS, UnreadableAcl, read_rule
from protocol.acl import AccessRule, Operation, Permission

log = structlog.get_logger()

_IMPLIED: Final = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}
"""Who is allowed one of these is allowed that, too; a denial of one denies nothing else."""

_NAMED_BY: Final = {asked: frozenset({asked, Operation.ALL}) for asked in Operation}
_ALLOWED_BY: Final = {asked: _NAMED_BY[asked].union(_IMPLIED.get(asked, ())) for asked in Operation}


class Decision(Enum):
    """What ACLs say.

    Attributes:
        UNTOLD: nothing about this client and operation; there are ACLs of the resource.
        NO_ACLS: nothing, and there are none of the resource.
    """

    ALLOWED = auto()
    DENIED = auto()
    UNTOLD = auto()
    NO_ACLS = auto()


class PatternRules:
    """All rules of one pattern, by principal.

    Args:
        about: the pattern as it is stored, for the log.
        texts: the rules as they are stored. One that this version cannot read closes the pattern:
            nobody but super users may do anything with its resources.
    """

    __slots__ = ("_closed", "_of")

    def __init__(self, about: str, texts: Iterable[str]) -> None:
        self._of: dict[str, list[tuple[str, AccessRule]]] = {}
        self._closed = False
        for text in texts:
            try:
                host, rule = _read(text)
            except UnreadableAcl as unreadable:
                self._closed = True
                log.warning("ACL cannot be read: closed", resource=about, reason=str(unreadable))
                continue
            self._of.setdefault(rule.principal, []).append((host, rule))

    def __bool__(self) -> bool:
        """Whether anything is said of the pattern."""
        return self._closed or bool(self._of)

    def __iter__(self) -> Iterator[AccessRule]:
        """Return the rules that could be read."""
        for rules in self._of.values():
            for _, rule in rules:
                yield rule

    @property
    def principals(self) -> Iterable[str]:
        return self._of.keys()

    @property
    def clients(self) -> set[tuple[str, str]]:
        """Return the principals and hosts that rules are about, hosts in their one form."""
        return {(principal, host) for principal, rules in self._of.items() for host, _ in rules}

    def decide(self, principals: Iterable[str], hosts: Set[str], asked: Operation) -> Decision:
        """Say what the rules come to; a denial counts before all that allows.

        Args:
            principals: of the client.
            hosts: of the client (`acl_hosts`).
            asked: what it wants to do.
        """
        if self._closed:
            return Decision.DENIED
        named_by, allowed_by = _NAMED_BY[asked], _ALLOWED_BY[asked]
        decision = Decision.UNTOLD
        for principal in principals:
            for host, rule in self._of.get(principal, ()):
                if host not in hosts:
                    continue
                if rule.permission is Permission.DENY:
                    if rule.operation in named_by:
                        return Decision.DENIED
                elif rule.operation in allowed_by:
                    decision = Decision.ALLOWED
        return decision

    def allows(self, principals: Iterable[str], hosts: Set[str], asked: Operation) -> bool:
        """Whether a rule allows the operation by its own name, or all."""
        return self._say(Permission.ALLOW, principals, hosts, asked)

    def denies(self, principals: Iterable[str], hosts: Set[str], asked: Operation) -> bool:
        return self._closed or self._say(Permission.DENY, principals, hosts, asked)

    def _say(
        self, permission: Permission, principals: Iterable[str], hosts: Set[str], asked: Operation
    ) -> bool:
        return any(
            rule.permission is permission and host in hosts and rule.operation in _NAMED_BY[asked]
            for principal in principals
            for host, rule in self._of.get(principal, ())
        )


@functools.lru_cache(maxsize=MAX_ACLS)
def _read(text: str) -> tuple[str, AccessRule]:
    """Return a rule and the one form of its host.

    All rules of a pattern come again with each change of one of them.
    """
    rule = read_rule(text)
    return host_form(rule.host), rule
