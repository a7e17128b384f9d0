"""What DescribeConfigs tells of a resource: values, where they come from, and synonyms.

Compared with Apache Kafka 4.3.1 (tests/broker/test_broker_configs.py). Two things are told
differently on purpose: a topic that follows log.retention.minutes or .hours says so (Kafka reports
a default without synonyms), and min.insync.replicas has Kafka's plain default (Kafka 4.1+ sets it
dynamically because of KIP-966).
What an earlier version has let be set of one broker, and is of CLUSTER_ONLY, is told of the broker,
for tools unset only what they are told of, and not of topics, for which it does not count.
"""

from collections.abc import Mapping
from dataclasses import replace

from broker.configs.broker_config_table import (
    BROKER_CONFIGS,
    NODE_FACTS,
)
from broker.configs.broker_configs import BrokerConfig
from broker.groups.group_configs import GROUP_CONFIGS
from broker.telemetry.client_metrics_configs import CLIENT_METRICS_CONFIGS
from storage.configs.cluster_config_table import (
    CLUSTER_ONLY,
    DYNAMIC_CONFIGS,
    FALLBACKS,
    ONLY_DYNAMIC,
)
from storage.configs.config_types import (
    ConfigEntry,
    ConfigKey,
    ConfigSource,
    ConfigSynonym,
    format_value,
)
from storage.configs.topic_config_table import TOPIC_CONFIGS, TopicConfigKey


def describe_topic_configs(
    explicit: Mapping[str, str], broker: BrokerConfig
) -> dict[str, ConfigEntry]:
    """Return every config of a topic that sets `explicit`, by name."""
    return {
        name: topic_entry(key, explicit.get(name), broker) for name, key in TOPIC_CONFIGS.items()
    }


def describe_broker_configs(
    broker: BrokerConfig, node_facts: Mapping[str, str]
) -> dict[str, ConfigEntry]:
    """Return every config of the broker, by name.

    Args:
        broker: what is in force there.
        node_facts: values of configs in NODE_FACTS (node.id, broker.rack ...); the rest is null.
    """
    entries = {name: _fact_entry(name, node_facts.get(name)) for name in NODE_FACTS}
    entries |= {name: _broker_entry(name, broker) for name in BROKER_CONFIGS}
    entries |= {
        name: _broker_entry(name, broker)
        for name in ONLY_DYNAMIC
        if name in broker.own or name in broker.cluster_wide
    }
    return dict(sorted(entries.items()))


def describe_cluster_wide_configs(broker: BrokerConfig) -> dict[str, ConfigEntry]:
    """Return what is set of the whole cluster while it runs, by name."""
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    return {
        name: ConfigEntry(
            key=DYNAMIC_CONFIGS[name],
            value=text,
            source=source,
            read_only=False,
            synonyms=(ConfigSynonym(name=name, value=text, source=source),),
        )
        for name, text in sorted(broker.cluster_wide.items())
    }


def describe_group_configs(own: Mapping[str, str], broker: BrokerConfig) -> dict[str, ConfigEntry]:
    """Return every config of a group that sets `own`, by name."""
    source = ConfigSource.GROUP_CONFIG
    return {
        name: _entry(key, own.get(name), source, broker_places(key.broker_name, broker))
        for name, key in GROUP_CONFIGS.items()
    }


def describe_client_metrics_configs(own: Mapping[str, str]) -> dict[str, ConfigEntry]:
    """Return every config of a client-metrics subscription that sets `own`, by name."""
    return {
        name: _entry(key, own.get(name), ConfigSource.CLIENT_METRICS_CONFIG, ())
        for name, key in CLIENT_METRICS_CONFIGS.items()
    }


def topic_entry(key: TopicConfigKey, own: str | None, broker: BrokerConfig) -> ConfigEntry:
    """Return one config of a topic that sets it to `own`, or does not set it."""
    followed = _followed(key.broker_name, broker) if key.broker_name else ()
    entry = _entry(key, own, ConfigSource.DYNAMIC_TOPIC_CONFIG, followed)
    if own is not None:
        return entry
    # what it follows may be told in another unit (log.retention.hours)
    return replace(entry, value=format_value(broker.topic_values[key.name]))


def _entry(
    key: ConfigKey, own: str | None, source: ConfigSource, followed: tuple[ConfigSynonym, ...]
) -> ConfigEntry:
    """Return one config of something that sets it to `own`, or else follows other places."""
    places = followed
    if own is not None:
        places = (ConfigSynonym(name=key.name, value=own, source=source), *followed)
    return ConfigEntry(
        key=key,
        value=places[0].value if places else _default_text(key),
        source=places[0].source if places else ConfigSource.DEFAULT_CONFIG,
        read_only=False,
        synonyms=places,
    )


def _broker_entry(name: str, broker: BrokerConfig) -> ConfigEntry:
    key = BROKER_CONFIGS.get(name) or ONLY_DYNAMIC[name]
    places = broker_places(name, broker)
    if not places or places[0].name != name:  # only a fallback has a value
        places = ()
    return ConfigEntry(
        key=key,
        value=places[0].value if places else None,
        source=places[0].source if places else ConfigSource.DEFAULT_CONFIG,
        read_only=not key.dynamic,
        synonyms=places,
    )


def _fact_entry(name: str, value: str | None) -> ConfigEntry:
    source = ConfigSource.DEFAULT_CONFIG if value is None else ConfigSource.STATIC_BROKER_CONFIG
    synonyms = () if value is None else (ConfigSynonym(name=name, value=value, source=source),)
    return ConfigEntry(
        key=NODE_FACTS[name], value=value, source=source, read_only=True, synonyms=synonyms
    )


def _followed(broker_name: str, broker: BrokerConfig) -> tuple[ConfigSynonym, ...]:
    """Return what topics follow; nothing while only a fallback's default stands behind it."""
    places = tuple(
        place
        for place in broker_places(broker_name, broker)
        if place.name not in CLUSTER_ONLY or place.source is not ConfigSource.DYNAMIC_BROKER_CONFIG
    )
    if BROKER_CONFIGS[broker_name].default is not None:
        return places
    is_set = any(place.source is not ConfigSource.DEFAULT_CONFIG for place in places)
    return places if is_set else ()


def broker_places(name: str, broker: BrokerConfig) -> tuple[ConfigSynonym, ...]:
    """Return the places that a broker config's value may come from, the one that counts first.

    Of its own name first, then of those that stand in for it (log.retention.hours); of each of
    them what is set before the default.
    """
    layers = (
        (broker.own, ConfigSource.DYNAMIC_BROKER_CONFIG),
        (broker.cluster_wide, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        (broker.explicit, ConfigSource.STATIC_BROKER_CONFIG),
    )
    places: list[ConfigSynonym] = []
    for each in (name, *(fallback for fallback, _ in FALLBACKS.get(name, ()))):
        places += (
            ConfigSynonym(name=each, value=layer[each], source=source)
            for layer, source in layers
            if each in layer
        )
        key = BROKER_CONFIGS.get(each)
        if key is not None and key.default is not None:
            text, source = format_value(key.default), ConfigSource.DEFAULT_CONFIG
            places.append(ConfigSynonym(name=each, value=text, source=source))
    return tuple(places)


def _default_text(key: ConfigKey) -> str | None:
    return None if key.default is None else format_value(key.default)
