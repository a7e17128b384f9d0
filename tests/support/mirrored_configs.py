"""The configs of many topics at once, as MirrorMaker sets or unsets them every ten minutes."""

from typing import Any, Final

from kio.static.primitive import i8

from tests.support.wire import request_entities

INCREMENTAL_ALTER_CONFIGS: Final = 44
MIRRORED: Final = 28
"""Configs of each topic."""


def alteration(topics: int) -> Any:
    """Return a request for the topics `mirrored-0` and so on, which nobody makes."""
    module = request_entities(INCREMENTAL_ALTER_CONFIGS, 1)
    configs = tuple(
        module.AlterableConfig(name=f"a.config.{number}", config_operation=i8(1), value=None)
        for number in range(MIRRORED)
    )
    return module.IncrementalAlterConfigsRequest(
        resources=tuple(
            module.AlterConfigsResource(
                resource_type=i8(2), resource_name=f"mirrored-{number}", configs=configs
            )
            for number in range(topics)
        ),
        validate_only=False,
    )
