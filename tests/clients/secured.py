"""A cluster that lets nobody in unasked, and what its administrator does to it."""

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from confluent_kafka import TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # not marked as re-exports
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from confluent_kafka.cimpl import NewTopic

from tests.clients.logins import Login
from tests.support.certificates import Authority
from tests.support.tokens import Issuer

ADMIN: Final = "admin"
ADMIN_PASSWORD: Final = "password-of-admin"
USERS: Final = 400
CALL_S: Final = 90.0
GLANCE_S: Final = 0.02
ITERATIONS: Final = 4096

_MECHANISMS: Final = (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
_numbers = itertools.count()


def password_of(user: str) -> str:
    """Return what every user's password is until it is changed."""
    return f"password-of-{user}"


@dataclass(slots=True, kw_only=True)
class Secured:
    """A running cluster.

    Attributes:
        addresses: HOST:PORT by security protocol; the host is localhost, the only name that the
            broker's certificate has.
        home: a directory for files of its tests.
        authority: signed the broker's certificate, and clients are known by it.
        trust: that authority's certificate, a file.
        issuer: of good tokens.
        log: the broker's, a file.
    """

    addresses: Mapping[str, str]
    home: Path
    authority: Authority
    trust: Path
    issuer: Issuer
    log: Path
    admin: AdminClient = field(init=False)

    def __post_init__(self) -> None:
        self.admin = AdminClient(self.admin_login().confluent())

    def admin_login(self) -> Login:
        return self.login(ADMIN, "SASL_PLAINTEXT", "SCRAM-SHA-512")

    def login(self, user: str, protocol: str, mechanism: str = "") -> Login:
        """Return what a user proves itself with, and proves it: password, token or certificate."""
        login = Login(
            bootstrap=self.addresses[protocol],
            protocol=protocol,
            mechanism=mechanism,
            user=user,
            password=password_of(user),
            trust=self.trust,
        )
        if mechanism == "OAUTHBEARER":
            return login.but(token=self.issuer.token(user))
        if protocol == "SSL":
            return login.but(keystore=self.keystore(user))
        return login

    def keystore(self, user: str) -> Path:
        """Return a client certificate whose subject the rules map to that user."""
        file = self.home / f"{user}.pem"
        certificate = self.authority.issue(f"CN={user},OU=Clients,O=Example", names=())
        return certificate.write_keystore(file)

    def new_user(self) -> str:
        """Make a user with a password; return its name."""
        number = next(_numbers)
        assert number < USERS, "Apache Kafka is told before which users PLAIN has"
        user = f"user-{number}"
        self.set_password(user, password_of(user))
        return user

    def set_password(self, user: str, password: str) -> None:
        """Set it for each SCRAM mechanism: one request for each, or they would be refused."""
        for mechanism in _MECHANISMS:
            info = ScramCredentialInfo(mechanism, ITERATIONS)
            change = UserScramCredentialUpsertion(user, info, password.encode())
            self.admin.alter_user_scram_credentials([change])[user].result(CALL_S)
        self._wait(lambda: user in self._users())

    def delete_user(self, user: str) -> None:
        for mechanism in _MECHANISMS:
            change = UserScramCredentialDeletion(user, mechanism)
            self.admin.alter_user_scram_credentials([change])[user].result(CALL_S)
        self._wait(lambda: user not in self._users())

    def new_topic(self, purpose: str = "topic", *, partition_count: int = 1) -> str:
        name = f"{purpose}-{next(_numbers)}"
        topic = NewTopic(name, partition_count, 1)
        self.admin.create_topics([topic])[name].result(CALL_S)
        return name

    def allow(self, *rules: AclBinding) -> None:
        """Create ACLs, and wait until they count."""
        for created in self.admin.create_acls(list(rules)).values():
            created.result(CALL_S)
        self._wait(lambda: all(self._found(rule) for rule in rules))

    def revoke(self, *rules: AclBinding) -> None:
        """Delete ACLs, and wait until they do not count any more."""
        filters = [filter_of(rule) for rule in rules]
        for deleted in self.admin.delete_acls(filters).values():
            assert deleted.result(CALL_S)
        self._wait(lambda: not any(self._found(rule) for rule in rules))

    def end_offset(self, topic: str) -> int:
        """Return the next offset of partition 0."""
        partition = TopicPartition(topic, 0)
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call] # (it has no types)
        asked = self.admin.list_offsets({partition: latest})
        offset: int = asked[partition].result(CALL_S).offset
        return offset

    def _users(self) -> Mapping[str, object]:
        asked: Any = self.admin.describe_user_scram_credentials()
        described: Mapping[str, object] = asked.result(CALL_S)
        return described

    def _found(self, rule: AclBinding) -> bool:
        return bool(self.admin.describe_acls(filter_of(rule)).result(CALL_S))

    @staticmethod
    def _wait(true: Callable[[], bool]) -> None:
        deadline = time.monotonic() + CALL_S
        while not true():
            assert time.monotonic() < deadline, "the change does not show"
            time.sleep(GLANCE_S)


def acl(
    user: str,
    operations: str | Sequence[str],
    resource: str,
    name: str,
    *,
    prefixed: bool = False,
    denied: bool = False,
    host: str = "*",
) -> list[AclBinding]:
    """Return an ACL for each of the operations.

    Args:
        user: its name, without the type.
        operations: as in Kafka's tools with _: "WRITE", "DESCRIBE_CONFIGS".
        resource: "TOPIC", "GROUP", "BROKER" (librdkafka's word for the cluster) or
            "TRANSACTIONAL_ID".
    """
    words = [operations] if isinstance(operations, str) else operations
    return [
        AclBinding(
            ResourceType[resource],
            name,
            ResourcePatternType.PREFIXED if prefixed else ResourcePatternType.LITERAL,
            f"User:{user}",
            host,
            AclOperation[word],
            AclPermissionType.DENY if denied else AclPermissionType.ALLOW,
        )
        for word in words
    ]


def traffic(user: str, topic: str, group: str) -> list[AclBinding]:
    """Return exactly what a user needs to produce to a topic and to consume it in a group."""
    return [
        *acl(user, ["WRITE", "READ"], "TOPIC", topic),
        *acl(user, "READ", "GROUP", group),
    ]


def filter_of(rule: AclBinding) -> AclBindingFilter:
    """Return the filter that fits this ACL only."""
    return AclBindingFilter(
        rule.restype,
        rule.name,
        rule.resource_pattern_type,
        rule.principal,
        rule.host,
        rule.operation,
        rule.permission_type,
    )
