"""IncrementalAlterConfigs: v0-1 (KIP-339). v1 flexible. SET, DELETE, APPEND and SUBTRACT.

Configs that are not named stay as they are. Topics; brokers, whose change of an empty name is for
the whole cluster (KIP-226); groups (KIP-848); client metrics (KIP-714); log levels (KIP-412), which
last as long as the process.

ACLs: ALTER_CONFIGS on the topic, the group or else the cluster.
"""

from collections.abc import Mapping
from typing import Any

from kio.static.protocol import Payload

from broker.configs.config_alterations import Alterations, Changes
from broker.configs.config_changes import ConfigChange, ConfigRules, incremental_changes
from broker.configs.config_resources import ConfigResource, answer_resources, check_node_id
from broker.configs.log_levels import LOG_LEVELS
from broker.configs.logger_changes import level_changes
from broker.requests import NOT_THROTTLED, Request


async def handle(request: Request) -> Payload:
    """Alter each resource that can be, or only say which (validate_only)."""
    body = request.decode()
    alterations = Alterations(request, _changes_of, replace=False, validate_only=body.validate_only)

    async def alter(resource: Any) -> None:
        if resource.resource_type == ConfigResource.BROKER_LOGGER:
            await _alter_levels(request, resource, validate_only=body.validate_only)
        else:
            await alterations.alter(resource)

    responses = await answer_resources(request, body.resources, alter)
    response: Payload = request.types.IncrementalAlterConfigsResponse(
        throttle_time=NOT_THROTTLED, responses=tuple(responses)
    )
    return response


def _changes_of(resource: Any, stored: Mapping[str, str], rules: ConfigRules) -> Changes:
    return incremental_changes(stored, _lines(resource), rules)


async def _alter_levels(request: Request, resource: Any, *, validate_only: bool) -> None:
    check_node_id(request, resource.resource_name)
    levels = await request.aside(_levels_of, resource)
    for logger, level in levels.items() if not validate_only else ():
        if level is None:
            LOG_LEVELS.unset(logger)
        else:
            LOG_LEVELS.set(logger, level)


def _levels_of(resource: Any) -> Mapping[str, str | None]:
    return level_changes(_lines(resource))


def _lines(resource: Any) -> list[ConfigChange]:
    return [
        ConfigChange(name=each.name, operation=each.config_operation, value=each.value)
        for each in resource.configs
    ]
