"""What AlterUserScramCredentials (KIP-554) changes: pure functions from requests to changes.

Credentials of a user are configs of the entity SCRAM with the user's name, by mechanism. All that a
request asks of one user happens together, or not at all. A mechanism of a user can be named once;
Apache Kafka 4.3.1 refuses a user that is named twice even if the mechanisms differ, which its own
tool sends for --add-config 'SCRAM-SHA-256=[...],SCRAM-SHA-512=[...]'.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kio.schema.errors import ErrorCode

from broker.refusals import Refusal
from protocol.sasl import MAX_USER_BYTES
from protocol.scram import MAX_ITERATIONS, MIN_ITERATIONS, ScramCredential, ScramMechanism
from storage.metadata.entity_configs import Entity, EntityChange, EntityKind

MAX_SALT_BYTES: Final = 1024
"""Every broker keeps it in memory; tools make 20 bytes or so."""

_MECHANISMS: Final = {int(mechanism): mechanism for mechanism in ScramMechanism}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramDeletion:
    """A credential that shall go.

    Attributes:
        mechanism: as the client numbers it.
    """

    user: str
    mechanism: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramUpsertion:
    """A credential that shall be there, whether it was before or not.

    Attributes:
        mechanism: as the client numbers it.
        iterations: with which the client salted the password.
    """

    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes = field(repr=False)


ScramAlteration = ScramDeletion | ScramUpsertion

Stored = Callable[[str], Mapping[str, str]]
"""Returns a user's stored credentials by the names of their mechanisms."""


def plan_alterations(
    alterations: Sequence[ScramAlteration], stored: Stored
) -> dict[str, EntityChange | Refusal]:
    """Return for each user, in the order of the request, what changes, or why nothing does."""
    of_users: dict[str, list[ScramAlteration]] = {}
    for alteration in alterations:
        of_users.setdefault(alteration.user, []).append(alteration)
    return {user: _plan(user, asked, stored(user)) for user, asked in of_users.items()}


def credentials_of(stored: Mapping[str, str]) -> dict[ScramMechanism, ScramCredential]:
    """Return a user's credentials, in the order of the mechanisms' numbers.

    Raises:
        ValueError: what is stored is none.
    """
    return {
        mechanism: ScramCredential.decode(stored[mechanism.sasl_name])
        for mechanism in ScramMechanism
        if mechanism.sasl_name in stored
    }


def _plan(
    user: str, asked: Sequence[ScramAlteration], stored: Mapping[str, str]
) -> EntityChange | Refusal:
    try:
        _check_user(user)
        _check_repeated(asked)
        changes = dict(_change(alteration, stored) for alteration in asked)
    except Refusal as refusal:
        return refusal
    return EntityChange(entity=Entity(EntityKind.SCRAM, user), changes=changes)


def _check_user(user: str) -> None:
    size = len(user.encode())
    if not size:
        raise Refusal(ErrorCode.unacceptable_credential, "A user needs a name.")
    if "\0" in user:  # which ends a name in PLAIN (RFC 4616)
        raise Refusal(ErrorCode.unacceptable_credential, "A user's name has no NUL.")
    if size > MAX_USER_BYTES:
        message = f"A user's name of {size} bytes; at most {MAX_USER_BYTES}."
        raise Refusal(ErrorCode.unacceptable_credential, message)


def _check_repeated(asked: Sequence[ScramAlteration]) -> None:
    counts = Counter(alteration.mechanism for alteration in asked)
    if max(counts.values()) > 1:
        raise Refusal(
            ErrorCode.duplicate_resource, "The request names a credential of this user twice."
        )


def _change(alteration: ScramAlteration, stored: Mapping[str, str]) -> tuple[str, str | None]:
    """Return the mechanism's name and what is stored under it from now on."""
    mechanism = _MECHANISMS.get(alteration.mechanism)
    if mechanism is None:
        raise Refusal(
            ErrorCode.unsupported_sasl_mechanism,
            f"{alteration.mechanism} is no SCRAM mechanism that this broker knows.",
        )
    if isinstance(alteration, ScramUpsertion):
        _check_strength(alteration)
        credential = ScramCredential.from_salted_password(
            mechanism,
            salt=alteration.salt,
            salted_password=alteration.salted_password,
            iterations=alteration.iterations,
        )
        return mechanism.sasl_name, credential.encode()
    if mechanism.sasl_name not in stored:
        raise Refusal(
            ErrorCode.resource_not_found, f"The user has no {mechanism.sasl_name} credential."
        )
    return mechanism.sasl_name, None


def _check_strength(asked: ScramUpsertion) -> None:
    problem = ""
    if asked.iterations < MIN_ITERATIONS:
        problem = f"{asked.iterations} iterations are too few; at least {MIN_ITERATIONS}."
    elif asked.iterations > MAX_ITERATIONS:
        problem = f"{asked.iterations} iterations are too many; at most {MAX_ITERATIONS}."
    elif not asked.salt or not asked.salted_password:
        problem = "Neither salt nor salted password may be empty."
    elif len(asked.salt) > MAX_SALT_BYTES:
        problem = f"A salt of {len(asked.salt)} bytes; at most {MAX_SALT_BYTES}."
    if problem:
        raise Refusal(ErrorCode.unacceptable_credential, problem)
