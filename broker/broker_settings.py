"""What may be set of a broker, at its start or while it runs, and what its texts mean."""

from collections.abc import Callable, Mapping

from broker.broker_config_table import BROKER_CONFIGS, DYNAMIC_CONFIGS, FLAGS, NODE_FACTS
from broker.config_types import (
    ConfigValue,
    InvalidConfig,
    format_value,
    parse_value,
    unknown_name,
)


def check_dynamic_configs(configs: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return those that can be set while a broker runs, as Kafka shows them, and what is wrong.

    How they go together is not looked at.
    """
    values, problems = parse_settings(configs, dynamic_name_problem)
    return shown(values), problems


def static_name_problem(name: str) -> str | None:
    """Return why a config cannot be set at the start of a broker; None if it can."""
    if name in BROKER_CONFIGS:
        return None
    if name in FLAGS:
        return f"{name} is given with {FLAGS[name]}"
    if name in NODE_FACTS:
        return f"{name} follows from the broker's place in its cluster"
    return unknown_name("broker", name, BROKER_CONFIGS)


def dynamic_name_problem(name: str) -> str | None:
    """Return why a config cannot be set while a broker runs; None if it can."""
    if name in DYNAMIC_CONFIGS:
        return None
    if name in BROKER_CONFIGS or name in NODE_FACTS or name in FLAGS:
        return f"Config {name} is fixed from the start of a broker on: it cannot be set dynamically"
    return unknown_name("broker", name, DYNAMIC_CONFIGS)


def parse_settings(
    texts: Mapping[str, str], name_problem: Callable[[str], str | None]
) -> tuple[dict[str, ConfigValue], list[str]]:
    """Return the values that are allowed, and what is wrong with the others."""
    values: dict[str, ConfigValue] = {}
    problems: list[str] = []
    for name, text in texts.items():
        if problem := name_problem(name):
            problems.append(problem)
            continue
        key = BROKER_CONFIGS.get(name) or DYNAMIC_CONFIGS[name]
        try:
            values[name] = parse_value(key, text)
        except InvalidConfig as invalid:
            problems += invalid.problems
    return values, problems


def shown(values: Mapping[str, ConfigValue]) -> dict[str, str]:
    """Return values as Kafka shows them."""
    return {name: format_value(value) for name, value in values.items()}
