"""What a client may do with a resource, as the answers that describe it tell (KIP-430).

Without an authorizer everybody may do everything that the kind of resource has.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from broker.requests import Request
from protocol.acl import CLUSTER_NAME, Operation, ResourceType

NOT_ASKED: Final = -(2**31)
HIDDEN: Final = 0
"""What somebody is told who may not even describe the cluster."""

_SUPPORTED: Final[Mapping[ResourceType, tuple[Operation, ...]]] = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
}


def authorized_operations(request: Request, resource_type: ResourceType, name: str) -> int:
    """Return what the client may do with a topic, a group or the cluster, as a bit field."""
    if not request.services.authorizer.enabled:
        return _ALL[resource_type]
    return _bits(
        operation
        for operation in _SUPPORTED[resource_type]
        if request.allows(operation, resource_type, name, audit=False)
    )


def cluster_operations(request: Request, *, asked: bool) -> int:
    """Return what the client may do with the cluster, if it asks and may describe it."""
    if not asked:
        return NOT_ASKED
    if not request.allows(Operation.DESCRIBE, ResourceType.CLUSTER):
        return HIDDEN
    return authorized_operations(request, ResourceType.CLUSTER, CLUSTER_NAME)


def _bits(operations: Iterable[Operation]) -> int:
    return sum(1 << operation for operation in operations)


_ALL: Final = {resource_type: _bits(operations) for resource_type, operations in _SUPPORTED.items()}
