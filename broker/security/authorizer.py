"""Who may do what: the semantics of Kafka's StandardAuthorizer.

Super users may do everything. A denial counts before all that allows; what nothing allows is
denied, unless allow.everyone.if.no.acl.found lets everybody at resources without any ACL.

Decisions are remembered until an ACL changes anywhere: here at once, from another broker with the
next poll of the configs of entities. While Postgres does not answer, the ACLs that are known stay
in force; the broker serves nobody before it has read them once.
"""

from collections.abc import Hashable, Iterable
from typing import Final, Protocol

import structlog

from broker.configs.entity_configs import EntityConfigs
from broker.network.hosts import acl_hosts
from broker.security.acl_index import AclIndex
from broker.security.acl_rules import Decision
from broker.security.acls import MAX_NAME_LENGTH
from broker.security.security_config import SecurityConfig
from protocol.acl import USER_TYPE, WILDCARD, Operation, ResourceType
from storage.metadata.entity_configs import EntityKind

log = structlog.get_logger()

MAX_DECISIONS: Final = 20_000
"""How many are remembered; then all are forgotten, for to find the oldest costs more."""

_EVERYBODY: Final = f"{USER_TYPE}:{WILDCARD}"
_SOME_NAME: Final = "hardcode"
"""The name that Kafka asks for where any will do, as it does for super users."""

_OPERATIONS: Final = len(Operation) + 1

_Question = tuple[int, str, str, str | None]
"""Resource type and operation, the user's name, its host, the resource's name (None: any)."""


class Client(Protocol):
    """Who asks: a session, or whoever had one. By user's name and ip address."""

    @property
    def principal(self) -> str: ...
    @property
    def host(self) -> str: ...


class Authorizer:
    """Decides by ACLs, if the broker is told to (authorizer.class.name); else all may do all.

    Attributes:
        enabled: whether ACLs decide.
        acls: all of them.
        edition: grows with every change of them.
    """

    def __init__(self, config: SecurityConfig, entity_configs: EntityConfigs) -> None:
        self.enabled = config.authorizer
        self.acls = AclIndex()
        self.edition = 0
        self._super_users = config.super_users
        self._unless_told = config.allow_everyone_if_no_acl
        self._entity_configs = entity_configs
        self._decisions: dict[_Question, bool] = {}
        if self.enabled:
            entity_configs.watch(EntityKind.ACL, self._follow)

    def allows(
        self,
        client: Client,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> bool:
        """Whether the client may do that."""
        return not self.enabled or self._known(client, operation, resource_type, name)

    def shows(self, client: Client, resource_type: ResourceType, name: str) -> bool:
        """Whether the client may describe that, which is one of many: others stay remembered."""
        return not self.enabled or self._decide(client, Operation.DESCRIBE, resource_type, name)

    def kind_of(self, client: Client, resource_type: ResourceType) -> Hashable:
        """Return what is equal for clients who may do the same with all resources of the type.

        Most ACLs name no host, and many users are named by none: who is asked for all resources
        need not be asked for each client then.
        """
        principals = _principals(client)
        if principals[0] in self._super_users:
            return None
        return self.acls.about(principals, acl_hosts(client.host), resource_type)

    def allows_any(self, client: Client, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether the client may do that with some resource of the type (KIP-679)."""
        return not self.enabled or self._known(client, operation, resource_type, None)

    def warn_of_lockout(self) -> None:
        """Tell the operator if nobody may ever change an ACL; call it once ACLs are known."""
        if not self.enabled or self._unless_told:
            return
        if any(one.startswith(f"{USER_TYPE}:") for one in self._super_users):
            return
        if not self.acls.gives(Operation.ALTER, ResourceType.CLUSTER):
            log.warning(
                "the authorizer is enabled, and nobody may create an ACL: all are locked out",
                fix="name those who may in super.users, such as User:admin",
            )

    def _known(
        self,
        client: Client,
        operation: Operation,
        resource_type: ResourceType,
        name: str | None,
    ) -> bool:
        """Return the decision, if need be after making it; without a name, about any resource."""
        question = (
            resource_type * _OPERATIONS + operation,
            client.principal,
            client.host,
            name,
        )
        decision = self._decisions.get(question)
        if decision is None:
            asked = client, operation, resource_type
            decision = self._decide_any(*asked) if name is None else self._decide(*asked, name)
            self._remember(question, decision)
        return decision

    def _decide_any(
        self, client: Client, operation: Operation, resource_type: ResourceType
    ) -> bool:
        return self._decide(client, operation, resource_type, _SOME_NAME) or self.acls.allows_any(
            *(_principals(client), acl_hosts(client.host), operation, resource_type)
        )

    def _decide(
        self,
        client: Client,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> bool:
        principals = _principals(client)
        if principals[0] in self._super_users:
            return True
        decision = self.acls.decide(
            principals, acl_hosts(client.host), operation, resource_type, name
        )
        if decision is Decision.NO_ACLS:
            return self._unless_told
        return decision is Decision.ALLOWED

    def _remember(self, question: _Question, decision: bool) -> None:
        name = question[-1]
        if name is not None and len(name) > MAX_NAME_LENGTH:
            return  # no resource has such a name: it would only fill the memory
        if len(self._decisions) >= MAX_DECISIONS:
            self._decisions.clear()
        self._decisions[question] = decision

    def _follow(self, stored: Iterable[str]) -> None:
        self.edition += 1
        self._decisions.clear()
        for pattern in stored:
            self.acls.put(pattern, self._entity_configs.get(EntityKind.ACL, pattern))


def _principals(client: Client) -> tuple[str, str]:
    return f"{USER_TYPE}:{client.principal}", _EVERYBODY
