"""IncrementalAlterConfigs: v0-1 (KIP-339). v1 flexible. SET, DELETE, APPEND and SUBTRACT.

Configs that are not named stay as they are. Configs of brokers are fixed from their start on.
"""

from typing import Any

from kio.static.protocol import Payload

from broker.config_changes import ConfigChange, incremental_changes
from broker.config_resources import Changes, alter_resources
from broker.requests import NOT_THROTTLED, Request
from broker.topics import KnownTopic


async def handle(request: Request) -> Payload:
    """Alter each resource that can be, or only say which (validate_only)."""
    defaults = request.services.config.topic_values

    def changes_of(resource: Any, topic: KnownTopic) -> Changes:
        changes = [
            ConfigChange(name=each.name, operation=each.config_operation, value=each.value)
            for each in resource.configs
        ]
        return incremental_changes(topic.topic.configs, changes, defaults)

    responses = await alter_resources(request, request.decode(), changes_of, replace=False)
    response: Payload = request.types.IncrementalAlterConfigsResponse(
        throttle_time=NOT_THROTTLED, responses=tuple(responses)
    )
    return response
