"""What a config belongs to, and the steps that AlterConfigs and IncrementalAlterConfigs share."""

from collections import Counter
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any

from kio.schema.errors import ErrorCode

from broker.refusals import CONDITIONS, Refusal, refusal_of
from broker.requests import Request
from broker.topics import KnownTopic
from protocol.topics import name_problem

Changes = Mapping[str, str | None]
"""What to set, or unset (None), of a topic."""


class ResourceType(IntEnum):
    """The resources of Kafka's config APIs that this broker has."""

    TOPIC = 2
    BROKER = 4


async def alter_resources(
    request: Request,
    body: Any,
    changes_of: Callable[[Any, KnownTopic], Changes],
    *,
    replace: bool,
) -> list[object]:
    """Alter each resource of `body` that can be, and return one response for each.

    Args:
        request: AlterConfigs or IncrementalAlterConfigs.
        body: of that request, decoded.
        changes_of: returns what a resource changes of its topic, or raises the Refusal.
        replace: whether all that the changes do not name is unset.
    """
    times = Counter(_identity(resource) for resource in body.resources)
    responses = []
    for resource in body.resources:
        refusal: Refusal | None = None
        try:
            if times[_identity(resource)] > 1:
                _refuse_repeated(resource)
            elif resource.resource_type == ResourceType.TOPIC:
                topic = await find_topic(request, resource.resource_name)
                changes = changes_of(resource, topic)
                if not body.validate_only and (changes or replace):
                    await _store(request, topic, changes, replace=replace)
            else:
                _refuse_altering(request, resource)
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


async def find_topic(request: Request, name: str) -> KnownTopic:
    """Return a topic whose configs are asked for.

    Raises:
        Refusal: INVALID_TOPIC_EXCEPTION or UNKNOWN_TOPIC_OR_PARTITION.
    """
    if problem := name_problem(name):
        raise Refusal(ErrorCode.invalid_topic_exception, f"Invalid topic: {problem}.")
    topic = await request.services.topics.find(name)
    if topic is None:
        raise Refusal(ErrorCode.unknown_topic_or_partition, f"Topic '{name}' does not exist.")
    return topic


def check_broker_name(request: Request, name: str) -> None:
    """Refuse a broker resource that names another broker; an empty name means all of them.

    Raises:
        Refusal: INVALID_REQUEST; clients ask each broker for its own configs.
    """
    node_id = request.services.cluster.node_id
    if name not in {"", str(node_id)}:
        raise Refusal(ErrorCode.invalid_request, f"This is broker {node_id}, not {name!r}.")


def unknown_resource_type(resource_type: int) -> Refusal:
    return Refusal(
        ErrorCode.invalid_request,
        f"Configs of resource type {resource_type} are not supported: only topics (2) and brokers"
        " (4).",
    )


async def _store(request: Request, topic: KnownTopic, changes: Changes, *, replace: bool) -> None:
    altered = await request.services.metadata.alter_topic_configs(
        topic.topic.topic_id, changes, replace=replace
    )
    request.services.topics.changed(altered)


def _identity(resource: Any) -> tuple[int, str]:
    return resource.resource_type, resource.resource_name


def _refuse_repeated(resource: Any) -> None:
    raise Refusal(
        ErrorCode.invalid_request,
        f"The request names resource {resource.resource_name!r} more than once.",
    )


def _refuse_altering(request: Request, resource: Any) -> None:
    """Refuse all but an empty change of a broker's configs, which are fixed from its start on."""
    if resource.resource_type != ResourceType.BROKER:
        raise unknown_resource_type(resource.resource_type)
    check_broker_name(request, resource.resource_name)
    if resource.configs:
        names = ", ".join(config.name for config in resource.configs)
        raise Refusal(
            ErrorCode.invalid_request,
            f"Broker configs are set at its start (--set NAME=VALUE), not while it runs: {names}.",
        )
