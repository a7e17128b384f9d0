"""ListConfigResources: v0-1 (KIP-1142). v0 client-metrics subscriptions only, v1 any resource.

Topics, brokers and log levels of brokers are named whether something is set of them or not; groups
and client-metrics subscriptions where something is. A type that nobody knows fails the request.

ACLs: DESCRIBE_CONFIGS on the cluster.
"""

from collections.abc import Iterable

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.configs.config_resources import ConfigResource
from broker.refusals import code_of
from broker.requests import NOT_THROTTLED, Request
from broker.services import Services
from storage.errors import MetadataUnavailable
from storage.metadata.entity_configs import EntityKind


async def handle(request: Request) -> Payload:
    """Name the resources of the types asked for; of no types all."""
    body, services = request.decode(), request.services
    asked = set(getattr(body, "resource_types", (ConfigResource.CLIENT_METRICS,)) or ConfigResource)
    code = ErrorCode.none if asked <= {*ConfigResource} else ErrorCode.unsupported_version
    try:
        await services.entity_configs.refresh()
    except MetadataUnavailable as unavailable:
        code = code_of(unavailable)
    resources = [
        request.types.ConfigResource(resource_name=name, resource_type=resource_type)
        for resource_type in sorted(ConfigResource, reverse=True)
        if resource_type in asked and code is ErrorCode.none
        for name in _names(services, resource_type)
    ]
    response: Payload = request.types.ListConfigResourcesResponse(
        throttle_time=NOT_THROTTLED, error_code=code, config_resources=tuple(resources)
    )
    return response


def _names(services: Services, resource_type: ConfigResource) -> Iterable[str]:
    match resource_type:
        case ConfigResource.TOPIC:
            return sorted(topic.topic.name for topic in services.topics.all())
        case ConfigResource.BROKER | ConfigResource.BROKER_LOGGER:
            return [str(node.node_id) for node in services.cluster.live]
        case ConfigResource.CLIENT_METRICS:
            return sorted(services.entity_configs.all(EntityKind.CLIENT_METRICS))
        case ConfigResource.GROUP:
            return sorted(services.entity_configs.all(EntityKind.GROUP))
