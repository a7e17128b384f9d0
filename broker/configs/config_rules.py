"""What may be set of each resource, and the code that Kafka has for what may not.

Pure, but for what is in force now. Apache Kafka's codes differ by resource: INVALID_CONFIG for
topics and groups, INVALID_REQUEST for brokers, and for client metrics now this, now that.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from kio.schema.errors import ErrorCode

from broker.configs.broker_config_table import BROKER_CONFIGS
from broker.configs.broker_configs import BrokerConfig
from broker.configs.config_reports import broker_places
from broker.configs.dynamic_broker_config import CLUSTER_WIDE, DynamicBrokerConfig
from broker.configs.log_levels import LOGGERS
from broker.groups.group_configs import GROUP_CONFIGS, read_group_configs, unknown_group_config
from broker.refusals import Refusal
from broker.telemetry.client_metrics_configs import (
    CLIENT_METRICS_CONFIGS,
    interval_problem,
    read_metrics_subscription,
    unknown_metrics_config,
)
from storage.configs.cluster_config_table import ONLY_DYNAMIC
from storage.configs.config_types import (
    ConfigKey,
    ConfigSource,
    ConfigValue,
    InvalidConfig,
    format_value,
    parse_value,
    shortened,
    told_of,
    unknown_name,
)
from storage.configs.topic_config_table import TOPIC_CONFIGS
from storage.configs.topic_configs import TopicValues, read_topic_values, topic_conflicts


@dataclass(frozen=True, slots=True)
class TopicRules:
    """Of a topic.

    Attributes:
        defaults: BrokerConfig.topic_values.
    """

    keys: ClassVar[Mapping[str, ConfigKey]] = TOPIC_CONFIGS
    defaults: TopicValues

    def unknown(self, name: str) -> str:
        return unknown_name("topic", name, TOPIC_CONFIGS)

    def default(self, name: str) -> ConfigValue:
        return self.defaults[name]

    def checked(
        self, configs: Mapping[str, str], *, problems: Sequence[str] = ()
    ) -> dict[str, str]:
        """See ConfigRules; `problems` are what else is wrong already."""
        unknown = [name for name in configs if name not in TOPIC_CONFIGS]
        wrong = [*problems, *told_of(unknown, self.unknown)]
        values: TopicValues = {}
        try:
            values = read_topic_values(configs, self.defaults)
        except InvalidConfig as invalid:
            wrong += invalid.problems
        if not wrong:  # what its defaults contradict each other in is not the topic's mistake
            known = topic_conflicts(self.defaults)
            wrong = [conflict for conflict in topic_conflicts(values) if conflict not in known]
        if wrong:
            raise Refusal(ErrorCode.invalid_config, "; ".join(wrong))
        return {name: format_value(values[name]) for name in configs}


@dataclass(frozen=True, slots=True)
class BrokerRules:
    """Of this broker, or of the whole cluster.

    Attributes:
        name: the node id, or CLUSTER_WIDE.
    """

    keys: ClassVar[Mapping[str, ConfigKey]] = {**BROKER_CONFIGS, **ONLY_DYNAMIC}
    config: DynamicBrokerConfig
    name: str

    def unknown(self, name: str) -> str:
        return unknown_name("broker", name, BROKER_CONFIGS)

    def default(self, name: str) -> ConfigValue | None:
        nearer = {ConfigSource.DYNAMIC_BROKER_CONFIG}
        if self.name == CLUSTER_WIDE:
            nearer.add(ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
        places = broker_places(name, self.config.current)
        texts = [place.value for place in places if place.source not in nearer]
        return parse_value(self.keys[name], texts[0]) if texts else None

    def checked(self, configs: Mapping[str, str]) -> dict[str, str]:
        try:
            proposed = self.config.proposed(self.name, configs)
        except InvalidConfig as invalid:
            raise Refusal(ErrorCode.invalid_request, str(invalid)) from invalid
        return dict(proposed.cluster_wide if self.name == CLUSTER_WIDE else proposed.own)


@dataclass(frozen=True, slots=True)
class GroupRules:
    """Of a group."""

    keys: ClassVar[Mapping[str, ConfigKey]] = GROUP_CONFIGS
    broker: BrokerConfig

    def unknown(self, name: str) -> str:
        return unknown_group_config(name)

    def default(self, name: str) -> ConfigValue | None:
        return GROUP_CONFIGS[name].default

    def checked(self, configs: Mapping[str, str]) -> dict[str, str]:
        try:
            read_group_configs(configs, self.broker)
        except InvalidConfig as invalid:
            raise Refusal(ErrorCode.invalid_config, str(invalid)) from invalid
        return _shown(configs, GROUP_CONFIGS)


@dataclass(frozen=True, slots=True)
class ClientMetricsRules:
    """Of a client-metrics subscription (KIP-714)."""

    keys: ClassVar[Mapping[str, ConfigKey]] = CLIENT_METRICS_CONFIGS

    def unknown(self, name: str) -> str:
        return unknown_metrics_config(name)

    def default(self, name: str) -> ConfigValue | None:
        return CLIENT_METRICS_CONFIGS[name].default

    def checked(self, configs: Mapping[str, str]) -> dict[str, str]:
        if unknown := [name for name in configs if name not in CLIENT_METRICS_CONFIGS]:
            wrong = told_of(unknown, self.unknown)
            raise Refusal(ErrorCode.invalid_request, "; ".join(wrong))
        try:
            subscription = read_metrics_subscription(configs)
        except InvalidConfig as invalid:
            raise Refusal(ErrorCode.invalid_config, str(invalid)) from invalid
        if problem := interval_problem(subscription.interval_ms):
            raise Refusal(ErrorCode.invalid_request, problem)
        return _shown(configs, CLIENT_METRICS_CONFIGS)


_NAMES: Final = frozenset(
    {
        *TopicRules.keys,
        *BrokerRules.keys,
        *GroupRules.keys,
        *ClientMetricsRules.keys,
        *LOGGERS,
    }
)


def told_names(names: Collection[str]) -> list[str]:
    """Return names of configs as a line of a log tells them: all that some resource has, sorted.

    Of others, which DELETE takes, only the first, cut: they neither fill a log, nor push out of
    it what was changed.
    """
    others = [name for name in names if name not in _NAMES]
    return [*sorted(_NAMES.intersection(names)), *told_of(others, shortened)]


def _shown(configs: Mapping[str, str], keys: Mapping[str, ConfigKey]) -> dict[str, str]:
    """Return configs whose values are all allowed as Kafka shows them."""
    return {name: format_value(parse_value(keys[name], text)) for name, text in configs.items()}
