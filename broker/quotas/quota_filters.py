"""What DescribeClientQuotas asks for: entities by their parts (KIP-546)."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum

from kio.schema.errors import ErrorCode

from broker.quotas.quota_entities import CLIENT_ID, ENTITY_TYPES, IP, USER, QuotaEntity
from broker.refusals import Refusal


class MatchType(IntEnum):
    """How a component of the filter matches the name of its entity type."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2


@dataclass(slots=True)
class QuotaFilter:
    """Entities that have these parts; if `strict`, no other ones besides.

    Attributes:
        names: the name of each type that must be this; None for the default.
        types: of which any name will do, the default, too.
    """

    strict: bool
    names: dict[str, str | None] = field(default_factory=dict)
    types: set[str] = field(default_factory=set)

    def matches(self, entity: QuotaEntity) -> bool:
        parts = dict(entity.parts)
        if self.strict and len(parts) != len(self.names) + len(self.types):
            return False
        if not self.types <= parts.keys():
            return False
        return all(kind in parts and parts[kind] == name for kind, name in self.names.items())


def quota_filter(components: Iterable[tuple[str, int, str | None]], *, strict: bool) -> QuotaFilter:
    """Return the filter of (entity type, match type, name) components.

    Raises:
        Refusal: INVALID_REQUEST, or UNSUPPORTED_VERSION for an entity type that is not known.
    """
    made = QuotaFilter(strict)
    for kind, match_type, name in components:
        _check_type(made, kind)
        _add(made, kind, match_type, name)
    asked = made.names.keys() | made.types
    if IP in asked and asked & {USER, CLIENT_ID}:
        raise _invalid("A filter for an ip cannot be combined with one for a user or client-id")
    return made


def _check_type(made: QuotaFilter, kind: str) -> None:
    if not kind:
        raise _invalid("Invalid empty entity type.")
    if kind in made.names or kind in made.types:
        raise _invalid(f"Entity type {kind} cannot appear more than once in the filter.")
    if kind not in ENTITY_TYPES:
        raise Refusal(ErrorCode.unsupported_version, f"Unsupported entity type {kind}")


def _add(made: QuotaFilter, kind: str, match_type: int, name: str | None) -> None:
    if match_type not in tuple(MatchType):
        raise _invalid(f"Unknown match type {match_type}")
    if match_type == MatchType.EXACT:
        if name is None:
            raise _invalid("An exact match needs a name")
        made.names[kind] = name
        return
    if name is not None:
        raise _invalid(f"A match of type {MatchType(match_type).name} has no name")
    if match_type == MatchType.DEFAULT:
        made.names[kind] = None
    else:
        made.types.add(kind)


def _invalid(message: str) -> Refusal:
    return Refusal(ErrorCode.invalid_request, message)
