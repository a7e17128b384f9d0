"""The configs of a client-metrics subscription (KIP-714): the table, and what they come to.

Pure functions: what the configs of a subscription are, and which clients it asks for metrics.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from coordinator.subscriptions import InvalidPattern, Pattern, compile_pattern
from storage.configs.config_types import (
    ConfigKey,
    ConfigType,
    ConfigValue,
    InvalidConfig,
    integer,
    parse_values,
    shortened,
    strings,
    unknown_name,
)

MATCH_KEYS: Final = (
    "client_id",
    "client_instance_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
"""What of a client a pattern of `match` may look at."""

ALL_METRICS: Final = "*"

_LEAST_MS: Final = 100
_MOST_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSubscription:
    """A subscription as the telemetry of clients needs it.

    Attributes:
        metrics: prefixes of the names of metrics; ALL_METRICS among them asks for every metric,
            none at all asks for nothing.
        interval_ms: between two pushes of a client.
        match: by one of MATCH_KEYS, what the whole of that text of a client must match; a client
            is meant if all of them do, thus each client where there are none.
    """

    metrics: tuple[str, ...]
    interval_ms: int
    match: Mapping[str, Pattern]

    def matches(self, client: Mapping[str, str]) -> bool:
        """Tell whether it is meant for a client.

        Args:
            client: texts by MATCH_KEYS; one that is not known of the client matches nothing.
        """
        return all(
            key in client and pattern.fullmatch(client[key]) is not None
            for key, pattern in self.match.items()
        )


def _match_problem(value: ConfigValue) -> str | None:
    assert isinstance(value, tuple)
    try:
        _patterns(value)
    except InvalidConfig as invalid:
        return str(invalid)
    return None


CLIENT_METRICS_CONFIGS: Final = {
    key.name: key
    for key in (
        ConfigKey(
            name="interval.ms",
            type=ConfigType.INT,
            default=300_000,
            doc="Time between two pushes of metrics by a client, in milliseconds.",
        ),
        ConfigKey(
            name="match",
            type=ConfigType.LIST,
            default=(),
            doc="Which clients push metrics: a list of key=pattern, all of which must match. Keys: "
            + ", ".join(MATCH_KEYS)
            + ". Patterns are regular expressions for the whole text. Empty means every client.",
            check=_match_problem,
        ),
        ConfigKey(
            name="metrics",
            type=ConfigType.LIST,
            default=(),
            doc="Prefixes of the names of the metrics that clients push; * for every metric.",
        ),
    )
}
"""All configs of a subscription, by name, in the order of their names."""


def unknown_metrics_config(name: str) -> str:
    """Return the sentence that refuses a name that is not in the table."""
    return unknown_name("client metrics", name, CLIENT_METRICS_CONFIGS)


def read_metrics_subscription(configs: Mapping[str, str]) -> MetricsSubscription:
    """Return what the configs of a subscription come to.

    Args:
        configs: what is set, by CLIENT_METRICS_CONFIGS.

    Raises:
        InvalidConfig: it names every mistake. What was checked before it was stored never raises.
    """
    own, problems = parse_values(configs, CLIENT_METRICS_CONFIGS, unknown_metrics_config)
    if problems:
        raise InvalidConfig(problems)
    values = {**{name: key.default for name, key in CLIENT_METRICS_CONFIGS.items()}, **own}
    return MetricsSubscription(
        metrics=strings(values, "metrics"),
        interval_ms=integer(values, "interval.ms"),
        match=_patterns(strings(values, "match")),
    )


def interval_problem(interval_ms: int) -> str | None:
    """Return what is wrong with an interval.ms, a number as it is; Kafka has a code for that."""
    if _LEAST_MS <= interval_ms <= _MOST_MS:
        return None
    return f"interval.ms ({interval_ms}) must be between {_LEAST_MS} and {_MOST_MS}"


def _patterns(match: tuple[str, ...]) -> dict[str, Pattern]:
    """Return the patterns of a `match`; of a key that comes twice the last one counts.

    Raises:
        InvalidConfig: an item is not key=pattern, of a known key and with a valid pattern.
    """
    patterns: dict[str, Pattern] = {}
    for item in match:
        key, *rest = (part.strip() for part in item.split("="))
        if key not in MATCH_KEYS or len(rest) != 1 or not rest[0]:
            raise InvalidConfig(
                [f"{shortened(item)!r} must be key=pattern, the key one of {', '.join(MATCH_KEYS)}"]
            )
        try:
            patterns[key] = compile_pattern(rest[0])  # RE2: in linear time, whatever it is
        except InvalidPattern as error:
            problem = f"{shortened(item)!r} is not a regular expression: {shortened(str(error))}"
            raise InvalidConfig([problem]) from error
    return patterns
