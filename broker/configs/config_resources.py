"""What a config belongs to, and the steps that the config APIs share.

A resource is a topic, or an entity: the whole cluster (a broker with an empty name), this broker, a
group, a client-metrics subscription. Clients ask each broker itself for what is that broker's.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker.configs.dynamic_broker_config import CLUSTER_WIDE
from broker.gradual import Gradually
from broker.groups.group_table import MAX_GROUP_ID_LENGTH
from broker.refusals import CONDITIONS, Refusal, refusal_of
from broker.requests import Request
from broker.topics import KnownTopic
from protocol import acl
from protocol.acl import Operation
from protocol.topics import name_problem
from storage.metadata.entity_configs import Entity, EntityKind


class ConfigResource(IntEnum):
    """The resources of Kafka's config APIs."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


_WITH_ACLS: Final[Mapping[int, acl.ResourceType]] = {
    ConfigResource.TOPIC: acl.ResourceType.TOPIC,
    ConfigResource.GROUP: acl.ResourceType.GROUP,
}

_NAMED_ENTITIES: Final[Mapping[int, EntityKind]] = {
    ConfigResource.CLIENT_METRICS: EntityKind.CLIENT_METRICS,
    ConfigResource.GROUP: EntityKind.GROUP,
}


async def answer_resources(
    request: Request, resources: Sequence[Any], alter: Callable[[Any], Awaitable[None]]
) -> list[object]:
    """Alter each resource that can be, and return one response for each.

    Args:
        request: AlterConfigs or IncrementalAlterConfigs.
        resources: of that request.
        alter: alters one, or raises why it cannot.
    """
    gradually = Gradually()
    times = Counter([_identity(resource) async for resource in gradually.each(resources)])
    responses = []
    async for resource in gradually.each(resources):
        refusal: Refusal | None = None
        try:
            if times[_identity(resource)] > 1:
                _refuse_repeated(resource)
            kind, name = _identity(resource)
            authorize(request, kind, name, Operation.ALTER_CONFIGS)
            await alter(resource)
        except CONDITIONS as condition:
            refusal = refusal_of(condition)
        responses.append(
            request.types.AlterConfigsResourceResponse(
                error_code=refusal.code if refusal else ErrorCode.none,
                error_message=str(refusal) if refusal else None,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    return responses


def authorize(request: Request, resource_type: int, name: str, operation: Operation) -> None:
    """Check that ACLs let the client do that with the configs of a resource.

    Those of brokers, their log levels and client metrics are the cluster's. A type that there is
    not has none.

    Raises:
        Refusal: TOPIC_, GROUP_ or CLUSTER_AUTHORIZATION_FAILED.
    """
    own = _WITH_ACLS.get(resource_type)
    if own is not None:
        request.authorize(operation, own, name)
    elif resource_type in set(ConfigResource):
        request.authorize(operation, acl.ResourceType.CLUSTER)


def find_entity(request: Request, resource_type: int, name: str) -> Entity:
    """Return whose configs a resource's are.

    Raises:
        Refusal: INVALID_REQUEST for a type, or a name, that nothing has here.
    """
    if resource_type == ConfigResource.BROKER:
        if name != CLUSTER_WIDE:
            check_node_id(request, name)
        return Entity(EntityKind.BROKER, name)
    kind = _NAMED_ENTITIES.get(resource_type)
    if kind is None:
        raise Refusal(
            ErrorCode.invalid_request, f"Configs of resource type {resource_type} do not exist."
        )
    if not 0 < len(name) <= MAX_GROUP_ID_LENGTH:
        raise Refusal(
            ErrorCode.invalid_request,
            f"The name of a {kind} resource must have 1 to {MAX_GROUP_ID_LENGTH} characters.",
        )
    return Entity(kind, name)


def known_topic(request: Request, name: str) -> KnownTopic:
    """Return a topic whose configs are asked for, once topics are up to date.

    Raises:
        Refusal: INVALID_TOPIC_EXCEPTION or UNKNOWN_TOPIC_OR_PARTITION.
    """
    if problem := name_problem(name):
        raise Refusal(ErrorCode.invalid_topic_exception, f"Invalid topic: {problem}.")
    topic = request.services.topics.get(name)
    if topic is None:
        raise Refusal(ErrorCode.unknown_topic_or_partition, f"Topic '{name}' does not exist.")
    return topic


def check_node_id(request: Request, name: str) -> None:
    """Check that `name` is this broker, as clients ask each broker for its own configs.

    An id has one spelling: with any that comes to the same number, such as 00, one request could
    name, and be told, the same as often as it likes.

    Raises:
        Refusal: INVALID_REQUEST.
    """
    node_id = request.services.cluster.node_id
    if name != str(node_id):
        raise Refusal(ErrorCode.invalid_request, f"This is broker {node_id}, not {name!r}.")


def _identity(resource: Any) -> tuple[int, str]:
    return resource.resource_type, resource.resource_name


def _refuse_repeated(resource: Any) -> None:
    raise Refusal(
        ErrorCode.invalid_request,
        f"The request names resource {resource.resource_name!r} more than once.",
    )
