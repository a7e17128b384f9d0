"""The credentials of users, as SCRAM and PLAIN need them: those that are set, and made up ones.

For a user that does not exist there is a credential, too, that no password fits: the same whenever
and of whichever broker it is asked for, and of the same kind as those that others have, for the
same mechanisms. So nobody can find out who exists. What it is made from is a secret of the cluster,
kept beside the users' credentials, under a name that no user can have.
"""

import base64
import hashlib
import os
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from broker.configs.entity_configs import EntityConfigs
from protocol.scram import MAX_ITERATIONS, MIN_ITERATIONS, ScramCredential, ScramMechanism
from storage.metadata.entity_configs import Entity, EntityChange, EntityKind

BOOTSTRAP_ITERATIONS: Final = MAX_ITERATIONS
"""The most that Kafka's tools take: this user may do everything, people choose its password, and a
client pays some ten milliseconds for it, once per connection."""

SALT_BYTES: Final = 32
_NOBODY: Final = Entity(EntityKind.SCRAM, "")
_SECRET: Final = "secret.of.unknown.users"  # noqa: S105 (the name of a config)
_LETTERS: Final = b"0123456789abcdefghijklmnopqrstuvwxyz"


class CredentialKind(NamedTuple):
    """What can be seen of a credential by somebody who does not know the password.

    Attributes:
        text: the salt is made of digits and small letters, as those from Java's tools are; kafka-ts
            reads no others.
    """

    iterations: int
    salt_bytes: int
    text: bool


Likeness = frozenset[tuple[ScramMechanism, CredentialKind]]
"""What can be seen of a user: the kinds of its credentials."""

_USUAL: Final = CredentialKind(MIN_ITERATIONS, SALT_BYTES, text=True)


class Credentials:
    """All credentials of the cluster; a change on any broker is known within a second."""

    def __init__(self, configs: EntityConfigs) -> None:
        self._configs = configs
        self._likenesses: dict[str, Likeness] = {}  # of users
        self._seen: dict[Likeness, tuple[Likeness, int]] = {}  # each once, and how many have it
        configs.watch(EntityKind.SCRAM, self._changed)
        self._changed(configs.all(EntityKind.SCRAM))

    def find(self, user: str, mechanism: ScramMechanism) -> ScramCredential | None:
        """Return a user's credential; None if it has none for the mechanism."""
        text = self._configs.get(EntityKind.SCRAM, user).get(mechanism.sasl_name) if user else None
        return None if text is None else ScramCredential.decode(text)

    def find_any(self, user: str) -> tuple[ScramMechanism, ScramCredential | None]:
        """Return a credential that a password can be checked with, and its mechanism.

        For somebody unknown it is a mechanism that another user's password is checked with, as one
        takes longer than the other.
        """
        for mechanism in ScramMechanism:
            credential = self.find(user, mechanism)
            if credential is not None:
                return mechanism, credential
        return min(self._like(user), default=ScramMechanism.SCRAM_SHA_256), None

    def make_up(self, user: str, mechanism: ScramMechanism) -> ScramCredential:
        """Return what stands for the credential of somebody unknown."""
        kind = self._like(user).get(mechanism) or self._any_kind(user, mechanism)
        salt = self._derive(kind.salt_bytes, "salt", mechanism.sasl_name, user)
        size = hashlib.new(mechanism.hash_name).digest_size
        return ScramCredential(
            salt=_as_text(salt) if kind.text else salt,
            stored_key=self._derive(size, "stored", mechanism.sasl_name, user),
            server_key=self._derive(size, "server", mechanism.sasl_name, user),
            iterations=kind.iterations,
        )

    def has_users(self) -> bool:
        """Whether anybody has a credential."""
        return any(name for name in self._configs.all(EntityKind.SCRAM))

    async def prepare(self) -> None:
        """Make the secret, if the cluster has none; of several brokers that do, the last one wins.

        Raises:
            MetadataUnavailable: no answer.
        """
        if _SECRET not in self._configs.get(*_of(_NOBODY)):
            secret = base64.b64encode(os.urandom(SALT_BYTES)).decode()
            change = EntityChange(entity=_NOBODY, changes={_SECRET: secret})
            await self._configs.alter([change])

    async def add_user(self, user: str, password: str) -> bool:
        """Give a user that password, for every mechanism; false if it has one already.

        Several brokers may do it at once: the credential of the last one stays, whole.

        Raises:
            MetadataUnavailable: no answer.
        """
        await self._configs.refresh()
        if self._configs.get(EntityKind.SCRAM, user):
            return False
        changes = {one.sasl_name: _credential(one, password) for one in ScramMechanism}
        change = EntityChange(entity=Entity(EntityKind.SCRAM, user), changes=changes)
        await self._configs.alter([change])
        return True

    def _like(self, user: str) -> dict[ScramMechanism, CredentialKind]:
        """Return the kinds of the credentials of a user whom somebody unknown is like."""
        # by weight, so that a kind that is added changes only those that it wins
        likeness = max(
            self._seen,
            key=lambda one: self._derive(
                16, repr([(int(name), *kind) for name, kind in sorted(one)]), user
            ),
            default=frozenset[tuple[ScramMechanism, CredentialKind]](),
        )
        return dict(likeness)

    def _any_kind(self, user: str, mechanism: ScramMechanism) -> CredentialKind:
        """Return a kind that others have for that mechanism, if any has one."""
        kinds = {kind for one in self._seen for name, kind in one if name is mechanism}
        return max(
            kinds,
            key=lambda kind: self._derive(16, repr(tuple(kind)), mechanism.sasl_name, user),
            default=_USUAL,
        )

    def _derive(self, size: int, *parts: str) -> bytes:
        secret = self._configs.get(*_of(_NOBODY)).get(_SECRET, "")
        return hashlib.shake_256("\0".join((secret, *parts)).encode()).digest(size)

    def _changed(self, users: Iterable[str]) -> None:
        """Look anew at these users: to decode what all have takes longer than a login may."""
        stored = self._configs.all(EntityKind.SCRAM)
        for user in filter(None, users):
            before = self._likenesses.pop(user, None)
            if before is not None:
                self._forget(before)
            if user in stored:
                likeness = _likeness(stored[user])
                same, count = self._seen.get(likeness, (likeness, 0))
                self._seen[same] = (same, count + 1)
                self._likenesses[user] = same

    def _forget(self, likeness: Likeness) -> None:
        """Take note that a user has it no more."""
        same, count = self._seen[likeness]
        if count == 1:
            del self._seen[same]
        else:
            self._seen[same] = (same, count - 1)


def _of(entity: Entity) -> tuple[EntityKind, str]:
    return entity.kind, entity.name


def _likeness(stored: Mapping[str, str]) -> Likeness:
    mechanisms = [one for one in ScramMechanism if one.sasl_name in stored]
    try:
        return frozenset(
            (one, _kind(ScramCredential.decode(stored[one.sasl_name]))) for one in mechanisms
        )
    except ValueError:  # told when that user logs in: all others still can
        return frozenset()


def _kind(credential: ScramCredential) -> CredentialKind:
    text = all(byte in _LETTERS for byte in credential.salt)
    return CredentialKind(credential.iterations, len(credential.salt), text)


def _as_text(salt: bytes) -> bytes:
    return bytes(_LETTERS[byte % len(_LETTERS)] for byte in salt)


def _credential(mechanism: ScramMechanism, password: str) -> str:
    salt = _as_text(os.urandom(SALT_BYTES))
    salted = hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, BOOTSTRAP_ITERATIONS)
    return ScramCredential.from_salted_password(
        mechanism, salt=salt, salted_password=salted, iterations=BOOTSTRAP_ITERATIONS
    ).encode()
