"""AlterConfigs: v0-2. v2 flexible. Deprecated in Kafka for IncrementalAlterConfigs (KIP-339).

Replaces all configs of a resource: what is not named goes back to its default. Brokers, groups and
client metrics as in IncrementalAlterConfigs; log levels (BROKER_LOGGER) cannot be replaced.

ACLs: ALTER_CONFIGS on the topic, the group or else the cluster.
"""

from collections.abc import Mapping
from typing import Any

from kio.static.protocol import Payload

from broker.configs.config_alterations import Alterations, Changes
from broker.configs.config_changes import ConfigRules, replaced_configs
from broker.configs.config_resources import answer_resources
from broker.requests import NOT_THROTTLED, Request


async def handle(request: Request) -> Payload:
    """Alter each resource that can be, or only say which (validate_only)."""
    body = request.decode()
    alterations = Alterations(request, _changes_of, replace=True, validate_only=body.validate_only)
    responses = await answer_resources(request, body.resources, alterations.alter)
    response: Payload = request.types.AlterConfigsResponse(
        throttle_time=NOT_THROTTLED, responses=tuple(responses)
    )
    return response


def _changes_of(resource: Any, stored: Mapping[str, str], rules: ConfigRules) -> Changes:
    del stored  # is replaced, whatever it is
    return {**replaced_configs([(each.name, each.value) for each in resource.configs], rules)}
