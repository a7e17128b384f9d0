"""The configs of a group (KIP-848): the table, and what they come to.

A group need not exist to have configs. Those of share and streams groups are not here, because
there are no such groups; consumer.assignment.interval.ms is not, because how long a group rests
between two assignments follows from its size.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from broker.configs.broker_configs import BrokerConfig
from storage.configs.config_types import (
    ConfigKey,
    ConfigType,
    InvalidConfig,
    Range,
    integer,
    parse_values,
    shortened,
    unknown_name,
)

HEARTBEAT_INTERVAL_MS: Final = "consumer.heartbeat.interval.ms"
SESSION_TIMEOUT_MS: Final = "consumer.session.timeout.ms"

_NOT_HERE: Final = ("share.", "streams.", "consumer.assignment.")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfigKey(ConfigKey):
    """A group config.

    Attributes:
        broker_name: the broker config that groups without this config follow.
    """

    broker_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupTimes:
    """What the members of one consumer group are told, and held to."""

    session_timeout_ms: int
    heartbeat_interval_ms: int


GROUP_CONFIGS: Final = {
    key.name: key
    for key in (
        GroupConfigKey(
            name=HEARTBEAT_INTERVAL_MS,
            type=ConfigType.INT,
            default=5000,
            doc="How often members of this consumer group are to send a heartbeat.",
            check=Range(1),
            broker_name="group.consumer.heartbeat.interval.ms",
        ),
        GroupConfigKey(
            name=SESSION_TIMEOUT_MS,
            type=ConfigType.INT,
            default=45_000,
            doc="A member of this consumer group that is silent for this time is taken out.",
            check=Range(1),
            broker_name="group.consumer.session.timeout.ms",
        ),
    )
}
"""All configs of a group, by name, in the order of their names."""


def unknown_group_config(name: str) -> str:
    """Return the sentence that refuses a name that is not in the table."""
    if name.startswith(_NOT_HERE):
        return f"Group config {shortened(name)} is not supported by this broker"
    return unknown_name("group", name, GROUP_CONFIGS)


def read_group_configs(configs: Mapping[str, str], broker: BrokerConfig) -> ConsumerGroupTimes:
    """Return what the configs of a group come to.

    Args:
        configs: what is set of the group.
        broker: what counts where nothing is set, and the bounds of what may be.

    Raises:
        InvalidConfig: it names every mistake.
    """
    own, problems = parse_values(configs, GROUP_CONFIGS, unknown_group_config)
    values = {
        HEARTBEAT_INTERVAL_MS: broker.group_consumer_heartbeat_interval_ms,
        SESSION_TIMEOUT_MS: broker.group_consumer_session_timeout_ms,
        **own,
    }
    times = ConsumerGroupTimes(
        session_timeout_ms=integer(values, SESSION_TIMEOUT_MS),
        heartbeat_interval_ms=integer(values, HEARTBEAT_INTERVAL_MS),
    )
    if problems := problems or _out_of_bounds(times, broker):
        raise InvalidConfig(problems)
    return times


def _out_of_bounds(times: ConsumerGroupTimes, broker: BrokerConfig) -> list[str]:
    problems = []
    for name, value, least, most in (
        (
            HEARTBEAT_INTERVAL_MS,
            times.heartbeat_interval_ms,
            broker.group_consumer_min_heartbeat_interval_ms,
            broker.group_consumer_max_heartbeat_interval_ms,
        ),
        (
            SESSION_TIMEOUT_MS,
            times.session_timeout_ms,
            broker.group_consumer_min_session_timeout_ms,
            broker.group_consumer_max_session_timeout_ms,
        ),
    ):
        if not least <= value <= most:
            what = GROUP_CONFIGS[name].broker_name.removeprefix("group.consumer.")
            problems.append(
                f"{name} ({value}) must be between group.consumer.min.{what} ({least}) and"
                f" group.consumer.max.{what} ({most})"
            )
    if times.heartbeat_interval_ms >= times.session_timeout_ms:
        problems.append(f"{HEARTBEAT_INTERVAL_MS} must be less than {SESSION_TIMEOUT_MS}")
    return problems
