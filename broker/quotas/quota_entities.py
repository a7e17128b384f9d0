"""Whom a client quota is for, and which quotas it may have (KIP-546, KIP-612).

An entity is a user, a client id, both together, or an ip; each is named, or is the default, which
stands for all that have no quota of their own. In the store its name is its parts as JSON, sorted,
with null for a default: {"client-id":"etl","user":null}.
"""

import ipaddress
import json
import math
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Self

from kio.schema.errors import ErrorCode

from broker.refusals import Refusal

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
ENTITY_TYPES: Final = (CLIENT_ID, IP, USER)

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

MAX_NAME_LENGTH: Final = 256
"""Characters; a longer client id is cut to as many, and the store's index has room for them."""

_ANY_NUMBER: Final = math.inf
_INT: Final = ("an INT", 2**31 - 1)
_LONG: Final = ("a LONG", 2.0**63)  # Long.MAX_VALUE as the double that it is on the wire
_WHOLE_WITHIN: Final = 1e-6
_KEYS_OF_CLIENTS: Final = {
    PRODUCER_BYTE_RATE: _LONG,
    CONSUMER_BYTE_RATE: _LONG,
    REQUEST_PERCENTAGE: ("a DOUBLE", _ANY_NUMBER),
    CONTROLLER_MUTATION_RATE: ("a DOUBLE", _ANY_NUMBER),
}
_KEYS_OF_IPS: Final = {CONNECTION_CREATION_RATE: _INT}

Parts = tuple[tuple[str, str | None], ...]
"""(entity type, name or None for the default), sorted by type."""


@dataclass(frozen=True, slots=True)
class QuotaEntity:
    """Whom a quota is for."""

    parts: Parts

    @classmethod
    def of(cls, parts: Iterable[tuple[str, str | None]]) -> Self:
        """Return the entity of parts in any order; of two of one type the last counts."""
        return cls(tuple(sorted(dict(parts).items())))

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Return the entity that has this name in the store."""
        return cls.of(json.loads(text).items())

    @property
    def text(self) -> str:
        """Its name in the store."""
        return json.dumps(dict(self.parts), separators=(",", ":"), ensure_ascii=False)

    @property
    def types(self) -> Set[str]:
        return dict(self.parts).keys()


def check_entity(entity: QuotaEntity) -> None:
    """Check that quotas can be set of an entity.

    Raises:
        Refusal: INVALID_REQUEST.
    """
    if not entity.parts:
        raise _invalid("Invalid empty client quota entity")
    for kind, name in entity.parts:
        if kind not in ENTITY_TYPES:
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
        if name is not None and len(name) > MAX_NAME_LENGTH:
            raise _invalid(f"A {kind} of more than {MAX_NAME_LENGTH} characters is not supported")
    if IP in entity.types:
        if len(entity.parts) > 1:
            raise _invalid("An ip cannot be combined with a user or client-id")
        name = entity.parts[0][1]
        if name is not None and ip_address(name) is None:
            raise _invalid(f"{name} is not an ip address")


def check_quota(entity: QuotaEntity, key: str, value: float) -> None:
    """Check one quota of an entity that `check_entity` has let pass.

    Raises:
        Refusal: INVALID_REQUEST.
    """
    keys: Mapping[str, tuple[str, float]] = _KEYS_OF_IPS if IP in entity.types else _KEYS_OF_CLIENTS
    if key not in keys:
        raise _invalid(f"Invalid configuration key {key}")
    kind, largest = keys[key]
    if value <= 0:
        raise _invalid(f"Quota {key} must be greater than 0")
    if value > largest:
        raise _invalid(f"Proposed value for {key} is too large for {kind}")
    if not math.isfinite(value):
        raise _invalid(f"Quota {key} must be a finite number")
    if largest is not _ANY_NUMBER and abs(value - round(value)) > _WHOLE_WITHIN:
        raise _invalid(f"{key} cannot be a fractional value")


def quota_values(configs: Mapping[str, str]) -> Mapping[str, float]:
    """Return the quotas of an entity as numbers, of what the store has of it."""
    return MappingProxyType({key: float(text) for key, text in configs.items()})


def ip_address(text: str) -> str | None:
    """Return an address in the one form in which it is compared; None if it is none.

    An IPv4 client of a socket that takes both is the same client.
    """
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def _invalid(message: str) -> Refusal:
    return Refusal(ErrorCode.invalid_request, message)
