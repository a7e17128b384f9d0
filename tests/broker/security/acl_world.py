"""An authorizer on a store of its own, and who asks it."""

import dataclasses
from collections.abc import Sequence
from random import Random

from broker.configs.broker_configs import read_broker_config
from broker.configs.entity_configs import EntityConfigs
from broker.network.client_session import ClientSession
from broker.security.acls import acl_changes
from broker.security.authorizer import Authorizer
from protocol.acl import (
    AccessRule,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from tests.broker.security.acl_model import Question
from tests.support.fakes.metadata import MemoryMetadata

TOPIC = ResourceType.TOPIC
READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE
SECURITY = read_broker_config({}).security


def session(user: str = "alice", host: str = "127.0.0.1") -> ClientSession:
    made = ClientSession()
    made.principal, made.host = user, host
    return made


def allow(
    name: str,
    *,
    operation: Operation = READ,
    principal: str = "User:alice",
    host: str = "*",
    prefixed: bool = False,
    permission: Permission = Permission.ALLOW,
) -> Acl:
    pattern_type = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    rule = AccessRule(principal, host, operation, permission)
    return Acl(ResourcePattern(TOPIC, pattern_type, name), rule)


class World:
    """An authorizer on a store of its own."""

    def __init__(
        self,
        *,
        enabled: bool = True,
        allow_everyone: bool = False,
        super_users: tuple[str, ...] = (),
    ) -> None:
        self.configs = EntityConfigs(MemoryMetadata(Random(7)))
        config = dataclasses.replace(
            SECURITY,
            authorizer=enabled,
            allow_everyone_if_no_acl=allow_everyone,
            super_users=frozenset(super_users),
        )
        self.authorizer = Authorizer(config, self.configs)

    async def create(self, *acls: Acl) -> None:
        await self.configs.alter(acl_changes(created=acls))

    async def delete(self, *acls: Acl) -> None:
        await self.configs.alter(acl_changes(deleted=acls))

    def allows(
        self,
        name: str,
        operation: Operation = READ,
        *,
        of: ClientSession | None = None,
        resource_type: ResourceType = TOPIC,
    ) -> bool:
        return self.authorizer.allows(of or session(), operation, resource_type, name)


def put(world: World, acls: Sequence[Acl]) -> None:
    """Store ACLs without a loop."""
    for change in acl_changes(created=acls):
        world.authorizer.acls.put(change.entity.name, change.changes)


def decided(world: World, questions: Sequence[Question]) -> list[tuple[bool, bool]]:
    """Return our decisions, each once as it is made and once as it is remembered."""
    answers = []
    for asked in questions:
        who = session(asked.user, asked.host)
        allows = {
            world.authorizer.allows(who, asked.operation, asked.resource_type, asked.name)
            for _ in range(2)
        }
        any_one = {
            world.authorizer.allows_any(who, asked.operation, asked.resource_type) for _ in range(2)
        }
        assert (len(allows), len(any_one)) == (1, 1)
        answers.append((allows.pop(), any_one.pop()))
    return answers
