"""Requests with more elements than are decoded at once."""

from typing import Any, Final

from kio.static.primitive import i8, i32

from tests.support.group_wire import OFFSET_DELETE
from tests.support.wire import request_entities

INCREMENTAL_ALTER_CONFIGS: Final = 44
MIRRORED: Final = 28
"""Configs of each topic."""


def alteration(topics: int) -> Any:
    """Return a request for the topics `mirrored-0` and so on, which nobody makes.

    So MirrorMaker sets or unsets the configs of all its topics, every ten minutes.
    """
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


def deletion(group: str, partitions: int) -> Any:
    """Return a request whose elements take the most memory for their bytes, all in one topic."""
    module = request_entities(OFFSET_DELETE, 0)
    topic = module.OffsetDeleteRequestTopic(
        name="t",
        partitions=tuple(
            module.OffsetDeleteRequestPartition(partition_index=i32(index))
            for index in range(partitions)
        ),
    )
    return module.OffsetDeleteRequest(group_id=group, topics=(topic,))
