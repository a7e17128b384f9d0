"""The administrative requests that tests send, with plain values."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any
from uuid import UUID

from tests.broker.admin.wire import TIMEOUT, Api, Wire

CREATE_TOPICS = 19
DELETE_TOPICS = 20
DESCRIBE_CONFIGS = 32
ALTER_CONFIGS = 33
CREATE_PARTITIONS = 37
INCREMENTAL_ALTER_CONFIGS = 44
DESCRIBE_CLUSTER = 60
DESCRIBE_TOPIC_PARTITIONS = 75

TOPIC = 2
BROKER = 4
SET, UNSET, APPEND, SUBTRACT = 0, 1, 2, 3

SCHEMA_CONFIGS = frozenset(
    f"confluent.{of}.{config}"
    for of in ("key", "value")
    for config in ("schema.validation", "subject.name.strategy")
)
"""Topic configs that Confluent Server has and Apache Kafka has not."""


def check_topic_configs(names: Collection[str]) -> None:
    """Check that these are all: the 33 that Apache Kafka 4.3.1 describes, and SCHEMA_CONFIGS."""
    assert set(names) > SCHEMA_CONFIGS
    assert len(names) == 33 + len(SCHEMA_CONFIGS)


def creatable(
    api: Api,
    name: str,
    *,
    partitions: int = 1,
    replicas: int = 1,
    assignments: Mapping[int, Sequence[int]] | None = None,
    configs: Mapping[str, str | None] | None = None,
) -> Any:
    return api.part(
        "CreatableTopic",
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=tuple(
            api.part("CreatableReplicaAssignment", partition_index=index, broker_ids=tuple(ids))
            for index, ids in (assignments or {}).items()
        ),
        configs=tuple(
            api.part("CreatableTopicConfig", name=config, value=value)
            for config, value in (configs or {}).items()
        ),
    )


def create(wire: Wire, name: str, *, version: int = 7, check: bool = False, **values: Any) -> Any:
    """Create one topic, or only check that it can be; return its result."""
    api = Api(CREATE_TOPICS, version)
    topics = (creatable(api, name, **values),)
    response = wire.ask(api.request(topics=topics, timeout=TIMEOUT, validate_only=check))
    (result,) = response.topics
    return result


def delete(wire: Wire, *names: str, version: int = 6) -> list[Any]:
    api = Api(DELETE_TOPICS, version)
    states = () if version < 6 else tuple(_state(api, name, None) for name in names)
    request = api.request(topics=states, topic_names=names, timeout=TIMEOUT)
    return list(wire.ask(request).responses)


def delete_by_id(wire: Wire, topic_id: UUID) -> Any:
    api = Api(DELETE_TOPICS, 6)
    request = api.request(topics=(_state(api, None, topic_id),), timeout=TIMEOUT)
    (result,) = wire.ask(request).responses
    return result


def add_partitions(
    wire: Wire,
    name: str,
    count: int,
    *,
    version: int = 3,
    check: bool = False,
    assignments: Sequence[Sequence[int]] | None = None,
) -> Any:
    api = Api(CREATE_PARTITIONS, version)
    assigned = None
    if assignments is not None:
        assigned = tuple(
            api.part("CreatePartitionsAssignment", broker_ids=tuple(ids)) for ids in assignments
        )
    topic = api.part("CreatePartitionsTopic", name=name, count=count, assignments=assigned)
    response = wire.ask(api.request(topics=(topic,), timeout=TIMEOUT, validate_only=check))
    (result,) = response.results
    return result


def describe(
    wire: Wire,
    name: str,
    *,
    kind: int = TOPIC,
    version: int = 4,
    keys: tuple[str, ...] | None = None,
    synonyms: bool = True,
    documentation: bool = False,
) -> Any:
    """Return the description of one resource."""
    api = Api(DESCRIBE_CONFIGS, version)
    resource = api.part(
        "DescribeConfigsResource", resource_type=kind, resource_name=name, configuration_keys=keys
    )
    request = api.request(
        resources=(resource,), include_synonyms=synonyms, include_documentation=documentation
    )
    (result,) = wire.ask(request).results
    return result


def set_configs(wire: Wire, name: str) -> dict[str, str]:
    """Return what a topic sets itself."""
    configs = describe(wire, name).configs
    return {config.name: config.value for config in configs if config.config_source == TOPIC_SOURCE}


TOPIC_SOURCE = 1


def replace(
    wire: Wire,
    name: str,
    configs: Mapping[str, str | None],
    *,
    kind: int = TOPIC,
    version: int = 2,
    check: bool = False,
) -> Any:
    """Send AlterConfigs for one resource."""
    api = Api(ALTER_CONFIGS, version)
    lines = tuple(
        api.part("AlterableConfig", name=config, value=value) for config, value in configs.items()
    )
    resource = api.part(
        "AlterConfigsResource", resource_type=kind, resource_name=name, configs=lines
    )
    (result,) = wire.ask(api.request(resources=(resource,), validate_only=check)).responses
    return result


def change(
    wire: Wire,
    name: str,
    *changes: tuple[str, int, str | None],
    kind: int = TOPIC,
    version: int = 1,
    check: bool = False,
    times: int = 1,
) -> Any:
    """Send IncrementalAlterConfigs for one resource, named `times` times; return one result."""
    api = Api(INCREMENTAL_ALTER_CONFIGS, version)
    lines = tuple(
        api.part("AlterableConfig", name=config, config_operation=operation, value=value)
        for config, operation, value in changes
    )
    resource = api.part(
        "AlterConfigsResource", resource_type=kind, resource_name=name, configs=lines
    )
    response = wire.ask(api.request(resources=(resource,) * times, validate_only=check))
    assert len(response.responses) == times
    assert len(set(response.responses)) == 1
    return response.responses[0]


def partitions_of(wire: Wire, *names: str, limit: int = 2000) -> tuple[list[Any], int]:
    """Return all partitions of the topics, page by page, and the number of pages."""
    api = Api(DESCRIBE_TOPIC_PARTITIONS, 0)
    topics = tuple(api.part("TopicRequest", name=name) for name in names)
    found: list[Any] = []
    cursor, pages = None, 0
    while pages == 0 or cursor is not None:
        request = api.request(topics=topics, response_partition_limit=limit, cursor=cursor)
        response = wire.ask(request)
        found += response.topics
        following = response.next_cursor
        cursor = following and api.part(
            "Cursor",
            topic_name=following.topic_name,
            partition_index=following.partition_index,
        )
        pages += 1
    return found, pages


def _state(api: Api, name: str | None, topic_id: UUID | None) -> Any:
    return api.part("DeleteTopicState", name=name, topic_id=topic_id)
