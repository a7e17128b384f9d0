"""What DescribeConfigs tells of a topic or a broker: values, where they come from, and synonyms.

Compared with Apache Kafka 4.3.1 (tests/broker/test_broker_configs.py). Two things are told
differently on purpose: a topic that follows log.retention.minutes or .hours says so (Kafka reports
a default without synonyms), and min.insync.replicas has Kafka's plain default (Kafka 4.1+ sets it
dynamically because of KIP-966).
"""

from collections.abc import Mapping

from broker.broker_config_table import BROKER_CONFIGS, FALLBACKS, NODE_FACTS
from broker.broker_configs import BrokerConfig
from broker.config_types import ConfigEntry, ConfigSource, ConfigSynonym, format_value
from broker.topic_config_table import TOPIC_CONFIGS, TopicConfigKey


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
    """Return every config of the broker, by name; all are read-only while it runs.

    Args:
        broker: what it was started with.
        node_facts: values of configs in NODE_FACTS (node.id, broker.rack ...); the rest is null.
    """
    entries = {name: _fact_entry(name, node_facts.get(name)) for name in NODE_FACTS}
    entries |= {name: _broker_entry(name, broker) for name in BROKER_CONFIGS}
    return dict(sorted(entries.items()))


def topic_entry(key: TopicConfigKey, own: str | None, broker: BrokerConfig) -> ConfigEntry:
    """Return one config of a topic that sets it to `own`, or does not set it."""
    chain = _followed(key.broker_name, broker) if key.broker_name else ()
    if own is not None:
        source = ConfigSource.DYNAMIC_TOPIC_CONFIG
        chain = (ConfigSynonym(name=key.name, value=own, source=source), *chain)
    else:
        source = chain[0].source if chain else ConfigSource.DEFAULT_CONFIG
    return ConfigEntry(
        key=key,
        value=format_value(broker.topic_values[key.name]) if own is None else own,
        source=source,
        read_only=False,
        synonyms=chain,
    )


def _broker_entry(name: str, broker: BrokerConfig) -> ConfigEntry:
    key = BROKER_CONFIGS[name]
    has_value = name in broker.explicit or key.default is not None
    chain = _chain(name, broker) if has_value else ()
    return ConfigEntry(
        key=key,
        value=chain[0].value if chain else None,
        source=chain[0].source if chain else ConfigSource.DEFAULT_CONFIG,
        read_only=True,
        synonyms=chain,
    )


def _fact_entry(name: str, value: str | None) -> ConfigEntry:
    source = ConfigSource.DEFAULT_CONFIG if value is None else ConfigSource.STATIC_BROKER_CONFIG
    synonyms = () if value is None else (ConfigSynonym(name=name, value=value, source=source),)
    return ConfigEntry(
        key=NODE_FACTS[name], value=value, source=source, read_only=True, synonyms=synonyms
    )


def _followed(broker_name: str, broker: BrokerConfig) -> tuple[ConfigSynonym, ...]:
    """Return what topics follow; nothing while only a fallback's default stands behind it."""
    chain = _chain(broker_name, broker)
    if BROKER_CONFIGS[broker_name].default is not None:
        return chain
    is_set = any(synonym.source is ConfigSource.STATIC_BROKER_CONFIG for synonym in chain)
    return chain if is_set else ()


def _chain(name: str, broker: BrokerConfig) -> tuple[ConfigSynonym, ...]:
    """Return the places that a broker config's value may come from: set ones before defaults."""
    synonyms: list[ConfigSynonym] = []
    for each in (name, *(fallback for fallback, _ in FALLBACKS.get(name, ()))):
        if each in broker.explicit:
            static = ConfigSource.STATIC_BROKER_CONFIG
            synonyms.append(ConfigSynonym(name=each, value=broker.explicit[each], source=static))
        default = BROKER_CONFIGS[each].default
        if default is not None:
            text, source = format_value(default), ConfigSource.DEFAULT_CONFIG
            synonyms.append(ConfigSynonym(name=each, value=text, source=source))
    return tuple(synonyms)
