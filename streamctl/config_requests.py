"""Configs of topics, brokers, groups and client metrics, asked for and altered."""

import shlex
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any, Final

from streamctl.errors import HINTS, Failure
from streamctl.wire import Wire, refused

_DESCRIBE_CONFIGS: Final = 32
_INCREMENTAL_ALTER_CONFIGS: Final = 44
_LIST_CONFIG_RESOURCES: Final = 74


class ResourceKind(StrEnum):
    """What has configs."""

    TOPIC = "topic"
    BROKER = "broker"
    GROUP = "group"
    CLIENT_METRICS = "client-metrics"


class Operation(IntEnum):
    """What IncrementalAlterConfigs does with a value (KIP-339)."""

    SET = 0
    UNSET = 1
    APPEND = 2
    SUBTRACT = 3


_TYPES: Final = {
    ResourceKind.TOPIC: 2,
    ResourceKind.BROKER: 4,
    ResourceKind.CLIENT_METRICS: 16,
    ResourceKind.GROUP: 32,
}
_SOURCES: Final = {
    1: "topic",
    2: "broker",
    3: "cluster",
    4: "start of the broker",
    5: "default",
    6: "logger",
    7: "client-metrics",
    8: "group",
}
_DEFAULT: Final = 5


@dataclass(frozen=True, slots=True)
class Resource:
    """One thing that has configs.

    Attributes:
        name: of the topic or group, or a node id; empty for all brokers of the cluster.
    """

    kind: ResourceKind
    name: str

    @property
    def source(self) -> str:
        """Return what `Config.source` is of configs that it sets itself."""
        return self.kind if self.name else "cluster"

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" if self.name else "the brokers' common configs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """One config of a resource.

    Attributes:
        value: None where it has none, or hides it.
        source: who set it.
        documentation: what it is for; empty where the broker does not say.
    """

    name: str
    value: str | None
    source: str
    is_default: bool
    read_only: bool
    sensitive: bool
    documentation: str


@dataclass(frozen=True, slots=True)
class Change:
    """One line of an alteration; `value` is not looked at for UNSET."""

    name: str
    operation: Operation
    value: str | None


def describe_configs(wire: Wire, resource: Resource) -> list[Config]:
    """Return all configs of a resource, by name.

    Raises:
        Failure: there is no such resource, or nobody answers.
    """
    with _asked(wire, resource) as broker:
        types = broker.types(_DESCRIBE_CONFIGS)
        answer = broker.ask(
            _DESCRIBE_CONFIGS,
            resources=(
                types.DescribeConfigsResource(
                    resource_type=_TYPES[resource.kind],
                    resource_name=resource.name,
                    configuration_keys=None,
                ),
            ),
            include_synonyms=False,
            include_documentation=True,
        )
    (result,) = answer.results
    if result.error_code:
        needs = _needs("describe-configs", resource)
        raise refused(str(resource), result.error_code, result.error_message, needs=needs)
    return sorted((_config(one) for one in result.configs), key=lambda config: config.name)


def alter_configs(
    wire: Wire, resource: Resource, changes: Sequence[Change], *, dry_run: bool
) -> None:
    """Make changes, or only ask whether they could be made.

    Raises:
        Failure: a change is not allowed, and none was made; or nobody answers.
    """
    with _asked(wire, resource) as broker:
        types = broker.types(_INCREMENTAL_ALTER_CONFIGS)
        configs = tuple(
            types.AlterableConfig(
                name=change.name, config_operation=change.operation, value=change.value
            )
            for change in changes
        )
        altered = types.AlterConfigsResource(
            resource_type=_TYPES[resource.kind], resource_name=resource.name, configs=configs
        )
        answer = broker.ask(_INCREMENTAL_ALTER_CONFIGS, resources=(altered,), validate_only=dry_run)
    (response,) = answer.responses
    if response.error_code:
        needs = _needs("alter-configs", resource)
        failure = refused(str(resource), response.error_code, response.error_message, needs=needs)
        # of brokers' configs, Kafka calls the request wrong, not the config
        raise Failure(failure.message, fix=failure.fix or HINTS["INVALID_CONFIG"])


def list_resources(wire: Wire, kinds: Sequence[ResourceKind]) -> list[Resource]:
    """Return what has configs, or could have them, of these kinds; sorted.

    Raises:
        Failure: the broker refused, or nobody answers.
    """
    by_type = {number: kind for kind, number in _TYPES.items()}
    answer = wire.ask(_LIST_CONFIG_RESOURCES, resource_types=tuple(_TYPES[kind] for kind in kinds))
    if answer.error_code:
        needs = "describe-configs --cluster"
        raise refused("configs", answer.error_code, None, needs=needs)
    found = [
        Resource(by_type[resource.resource_type], resource.resource_name)
        for resource in answer.config_resources
        if resource.resource_type in by_type
    ]
    return sorted(found, key=lambda resource: (kinds.index(resource.kind), resource.name))


def changes_of(
    values: Mapping[Operation, Sequence[tuple[str, str]]], unset: Sequence[str]
) -> list[Change]:
    """Return the lines of an alteration in the order in which people give them."""
    lines = [
        Change(name, operation, value)
        for operation, assignments in values.items()
        for name, value in assignments
    ]
    return lines + [Change(name, Operation.UNSET, None) for name in unset]


def _asked(wire: Wire, resource: Resource) -> AbstractContextManager[Wire]:
    """Return a connection to a broker that answers for the resource: for its own, only itself."""
    is_one_broker = resource.kind is ResourceKind.BROKER and resource.name
    return wire.to_broker(int(resource.name)) if is_one_broker else nullcontext(wire)


def _needs(operation: str, resource: Resource) -> str:
    """Return what an ACL would have to allow, as `refusal` takes it."""
    if resource.kind in (ResourceKind.TOPIC, ResourceKind.GROUP):
        return f"{operation} --{resource.kind} {shlex.quote(resource.name)}"
    return f"{operation} --cluster"


def _config(answered: Any) -> Config:
    return Config(
        name=answered.name,
        value=None if answered.is_sensitive else answered.value,
        source=_SOURCES.get(answered.config_source, "unknown"),
        is_default=answered.config_source == _DEFAULT,
        read_only=answered.read_only,
        sensitive=answered.is_sensitive,
        documentation=getattr(answered, "documentation", None) or "",
    )
