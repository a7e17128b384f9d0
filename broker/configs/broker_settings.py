"""What may be set of a broker, at its start or while it runs, and what its texts mean."""

from collections.abc import Mapping

from broker.configs.broker_config_table import BROKER_CONFIGS, FLAGS, NODE_FACTS
from storage.configs.cluster_config_table import DYNAMIC_CONFIGS
from storage.configs.config_types import (
    ConfigValue,
    format_value,
    parse_values,
    unknown_name,
)


def check_dynamic_configs(configs: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return those that can be set while a broker runs, as Kafka shows them, and what is wrong.

    How they go together is not looked at.
    """
    values, problems = parse_values(configs, DYNAMIC_CONFIGS, dynamic_name_problem)
    return shown(values), problems


def static_name_problem(name: str) -> str:
    """Return why a config that is not in BROKER_CONFIGS cannot be set at the start of a broker."""
    if name in FLAGS:
        return f"{name} is given with {FLAGS[name]}"
    if name in NODE_FACTS:
        return f"{name} follows from the broker's place in its cluster"
    return unknown_name("broker", name, BROKER_CONFIGS)


def dynamic_name_problem(name: str) -> str:
    """Return why a config that is not in DYNAMIC_CONFIGS cannot be set while a broker runs."""
    if name in BROKER_CONFIGS or name in NODE_FACTS or name in FLAGS:
        return f"Config {name} is fixed from the start of a broker on: it cannot be set dynamically"
    return unknown_name("broker", name, DYNAMIC_CONFIGS)


def cluster_only_problem(name: str) -> str:
    """Return why a config of CLUSTER_ONLY cannot be set of one broker."""
    return f"Config {name} holds for the whole cluster here: set it without a broker's id"


def shown(values: Mapping[str, ConfigValue]) -> dict[str, str]:
    """Return values as Kafka shows them."""
    return {name: format_value(value) for name, value in values.items()}
