"""AlterConfigs: v0-2. v2 flexible. Deprecated in Kafka for IncrementalAlterConfigs (KIP-339).

Replaces all configs of a topic: what is not named goes back to its default. Configs of brokers are
fixed from their start on.
"""

from typing import Any

from kio.static.protocol import Payload

from broker.config_changes import replaced_configs
from broker.config_resources import Changes, alter_resources
from broker.requests import NOT_THROTTLED, Request
from broker.topics import KnownTopic


async def handle(request: Request) -> Payload:
    """Alter each resource that can be, or only say which (validate_only)."""
    defaults = request.services.config.topic_values

    def changes_of(resource: Any, topic: KnownTopic) -> Changes:
        del topic  # its configs are replaced, whatever they are
        settings = [(config.name, config.value) for config in resource.configs]
        return {**replaced_configs(settings, defaults)}

    responses = await alter_resources(request, request.decode(), changes_of, replace=True)
    response: Payload = request.types.AlterConfigsResponse(
        throttle_time=NOT_THROTTLED, responses=tuple(responses)
    )
    return response
