r"""ssl.principal.mapping.rules: how a certificate's subject becomes a user's name (KIP-371).

    RULE:^CN=([^,]+),OU=Users.*$/$1/L, DEFAULT

A rule is a pattern that has to match the whole distinguished name, what takes the place of what it
matches, and L or U for lower or upper case. The first rule that matches counts; DEFAULT takes the
name as it is. Inside a rule / is written \/, so commas need nothing.

Patterns are RE2's: no pattern takes more than linear time, whatever is in a certificate. Of Java's
patterns it lacks look-around and back references.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import re2

_PART: Final = r"((?:\\.|[^\\/])*)"
_RULE: Final = re.compile(rf"\s*(?:(DEFAULT)|RULE:{_PART}/{_PART}/([LU]?))\s*(?:,|$)", re.DOTALL)
_REFERENCE: Final = re.compile(r"\\(.)|\$([0-9]+)|([^\\$]+)|(\$)", re.DOTALL)
_SHOWN: Final = 60

_CASES: Final[dict[str, Callable[[str], str]]] = {"": str, "L": str.lower, "U": str.upper}


class NoRuleApplies(Exception):
    """No rule matches the subject of a certificate, so its owner has no name here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule.

    Attributes:
        pattern: compiled by RE2.
        parts: of the replacement: text, or the number of a group.
    """

    pattern: Any
    parts: Sequence[str | int]
    change_case: Callable[[str], str]

    def apply(self, name: str) -> str | None:
        """Return the user's name, or None where the rule does not match the whole of `name`."""
        if self.pattern.fullmatch(name) is None:
            return None
        replaced, end = [], 0
        for match in self.pattern.finditer(name):  # as Java's replaceAll: the first may be shorter
            replaced += [name[end : match.start()], self._replacement(match)]
            end = match.end()
        return self.change_case("".join([*replaced, name[end:]]))

    def _replacement(self, match: Any) -> str:
        return "".join(
            part if isinstance(part, str) else match.group(part) or "" for part in self.parts
        )


class PrincipalMapping:
    """The rules in force.

    Raises:
        ValueError: it has no rules, or one of them is none; the message names it.
    """

    def __init__(self, text: str) -> None:
        self._rules: list[Rule | None] = []
        position = 0
        while position < len(text.rstrip()):
            found = _RULE.match(text, position)
            if found is None:
                raise ValueError(
                    f"{text[position:].strip()[:_SHOWN]!r} is no rule:"
                    " use RULE:pattern/replacement/, with L or U behind it, or DEFAULT"
                )
            self._rules.append(None if found[1] else _rule(found[2], found[3], found[4]))
            position = found.end()
        if not self._rules:
            raise ValueError("use RULE:pattern/replacement/ or DEFAULT")

    def name(self, subject: str) -> str:
        """Return the user's name for a distinguished name (RFC 2253).

        Raises:
            NoRuleApplies: none matches.
        """
        for rule in self._rules:
            name = subject if rule is None else rule.apply(subject)
            if name is not None:
                return name
        raise NoRuleApplies(f"no rule of ssl.principal.mapping.rules applies to {subject!r}")


def mapping_problem(text: str) -> str | None:
    """Return what is wrong with rules, or None."""
    try:
        PrincipalMapping(text)
    except ValueError as error:
        return str(error)
    return None


def _rule(pattern: str, replacement: str, case: str) -> Rule:
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0]
        reason = reason.decode() if isinstance(reason, bytes) else str(reason)
        raise ValueError(f"the pattern {pattern[:_SHOWN]!r} is none of RE2's: {reason}") from None
    parts: list[str | int] = []
    for escaped, digits, literal, dollar in _REFERENCE.findall(replacement):
        if dollar:
            raise ValueError(f"{replacement[:_SHOWN]!r}: behind $ comes the number of a group")
        parts += _reference(digits, compiled.groups) if digits else [escaped or literal]
    return Rule(pattern=compiled, parts=parts, change_case=_CASES[case])


def _reference(digits: str, groups: int) -> list[str | int]:
    """Return the group that `digits` begins with, and the rest; a group that is not there is text.

    As in Java: with two groups $12 is the first one and a 2.
    """
    for length in range(len(digits), 0, -1):
        if int(digits[:length]) <= groups:
            return [int(digits[:length]), digits[length:]]
    return [f"${digits}"]
