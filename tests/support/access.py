"""ACLs for tests whose clients are all ANONYMOUS: the address they come from tells them apart.

Every address that begins with 127 is this machine's own, so no two clients need to share one.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from protocol.acl import CLUSTER_NAME, WILDCARD, Operation, PatternType, Permission, ResourceType
from tests.support.wire import WireClient, request_entities

AUTHORIZER: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",  # until there are any: who could make the first?
}
"""Configs of a broker, this one or Apache Kafka."""

MANAGER: Final = "127.0.0.1"
"""Comes from here by default, and may do everything after `let_manage`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """An ACL for whoever comes from an address; `name` is that of one resource, or WILDCARD."""

    host: str
    operation: Operation
    resource_type: ResourceType
    name: str = CLUSTER_NAME
    permission: Permission = Permission.ALLOW


def everything(host: str, operation: Operation, kinds: Iterable[ResourceType]) -> list[Rule]:
    """Return what lets who comes from an address do that with all resources of these kinds."""
    return [
        Rule(
            host=host,
            operation=operation,
            resource_type=kind,
            name=CLUSTER_NAME if kind is ResourceType.CLUSTER else WILDCARD,
        )
        for kind in kinds
    ]


def management() -> list[Rule]:
    """Return what lets the manager do everything; after it, nobody else may do anything."""
    return everything(MANAGER, Operation.ALL, set(ResourceType) - {ResourceType.ANY})


async def create_acls(manager: WireClient, rules: Iterable[Rule]) -> None:
    """Create them; this broker goes by them when this returns, Apache Kafka a moment later."""
    module = request_entities(30, 3)
    creations = tuple(
        module.AclCreation(
            resource_type=rule.resource_type,
            resource_name=rule.name,
            resource_pattern_type=PatternType.LITERAL,
            principal="User:ANONYMOUS",
            host=rule.host,
            operation=rule.operation,
            permission_type=rule.permission,
        )
        for rule in rules
    )
    results = (await manager.ask(module.CreateAclsRequest(creations=creations))).results
    assert all(one.error_code == 0 for one in results), results


async def delete_acls(manager: WireClient, rules: Iterable[Rule]) -> None:
    """Delete just these."""
    module = request_entities(31, 3)
    filters = tuple(
        module.DeleteAclsFilter(
            resource_type_filter=rule.resource_type,
            resource_name_filter=rule.name,
            pattern_type_filter=PatternType.LITERAL,
            principal_filter="User:ANONYMOUS",
            host_filter=rule.host,
            operation=rule.operation,
            permission_type=rule.permission,
        )
        for rule in rules
    )
    results = (await manager.ask(module.DeleteAclsRequest(filters=filters))).filter_results
    assert all(one.error_code == 0 and one.matching_acls for one in results), results
