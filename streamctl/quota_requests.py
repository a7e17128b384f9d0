"""Client quotas (KIP-546): asked for and altered."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from streamctl.wire import Wire, refused

_DESCRIBE_CLIENT_QUOTAS: Final = 48
_ALTER_CLIENT_QUOTAS: Final = 49
_EXACT, _DEFAULT, _ANY = 0, 1, 2


class Who(StrEnum):
    """The parts of an entity that quotas are for."""

    USER = "user"
    CLIENT_ID = "client-id"
    IP = "ip"


class Limit(StrEnum):
    """What is limited, per broker."""

    PRODUCE = "producer_byte_rate"
    FETCH = "consumer_byte_rate"
    REQUEST = "request_percentage"
    MUTATION = "controller_mutation_rate"
    CONNECTION = "connection_creation_rate"


EntityName = Mapping[Who, str | None]
"""A user, client id or ip, or some of them; None stands for all that have no quota of their own."""


@dataclass(frozen=True, slots=True)
class Quota:
    """The limits of one entity, by Kafka's names."""

    entity: EntityName
    limits: Mapping[str, float]


def described(entity: EntityName) -> str:
    """Return how people call an entity: user alice, client-id (default)."""
    return ", ".join(
        f"{part} {'(default)' if name is None else name}" for part, name in entity.items()
    )


def find_quotas(wire: Wire, parts: Sequence[Who], *, strict: bool) -> list[Quota]:
    """Return the quotas of entities that have all of `parts`; only these parts, if `strict`.

    Raises:
        Failure: the broker refused, or nobody answers.
    """
    types = wire.types(_DESCRIBE_CLIENT_QUOTAS)
    components = [
        types.ComponentData(entity_type=part.value, match_type=_ANY, match=None) for part in parts
    ]
    answer = wire.ask(_DESCRIBE_CLIENT_QUOTAS, components=tuple(components), strict=strict)
    if answer.error_code:
        needs = "describe-configs --cluster"
        raise refused("quotas", answer.error_code, answer.error_message, needs=needs)
    quotas = [
        Quota(
            {Who(one.entity_type): one.entity_name for one in entry.entity},
            {value.key: value.value for value in entry.values},
        )
        for entry in answer.entries or ()
    ]
    return sorted(quotas, key=lambda quota: described(quota.entity))


def alter_quota(wire: Wire, entity: EntityName, limits: Mapping[Limit, float | None]) -> None:
    """Set limits of an entity, or take them away (None).

    Raises:
        Failure: a limit is not allowed, and nothing was changed; or nobody answers.
    """
    types = wire.types(_ALTER_CLIENT_QUOTAS)
    entry = types.EntryData(
        entity=tuple(
            types.EntityData(entity_type=part.value, entity_name=name)
            for part, name in entity.items()
        ),
        ops=tuple(
            types.OpData(key=limit.value, value=value or 0.0, remove=value is None)
            for limit, value in limits.items()
        ),
    )
    answer = wire.ask(_ALTER_CLIENT_QUOTAS, entries=(entry,), validate_only=False)
    (outcome,) = answer.entries
    if outcome.error_code:
        subject = f"quota of {described(entity)}"
        needs = "alter-configs --cluster"
        raise refused(subject, outcome.error_code, outcome.error_message, needs=needs)
