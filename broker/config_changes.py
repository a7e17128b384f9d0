"""What CreateTopics, AlterConfigs and IncrementalAlterConfigs (KIP-339) may set on a topic.

Pure functions from what a client sent to what is stored. Values are stored in the form that Kafka
shows them (no blanks, no plus), so that a description repeats exactly what is stored.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from kio.schema.errors import ErrorCode

from broker.config_types import (
    ConfigType,
    InvalidConfig,
    format_value,
    unknown_name,
)
from broker.refusals import Refusal
from broker.topic_config_table import TOPIC_CONFIGS
from broker.topic_configs import TopicValues, read_topic_values, topic_conflicts

Setting = tuple[str, str | None]
"""A config's name and the value that a client sent for it."""


class ConfigOperation(IntEnum):
    """What IncrementalAlterConfigs does with a value (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChange:
    """One line of an IncrementalAlterConfigs request.

    Attributes:
        operation: a ConfigOperation if the client knows its protocol.
        value: not looked at for DELETE.
    """

    name: str
    operation: int
    value: str | None


def created_configs(settings: Iterable[Setting], defaults: TopicValues) -> dict[str, str]:
    """Return what a new topic stores; of a name that comes twice the last counts, as in Kafka.

    Raises:
        Refusal: INVALID_CONFIG for names, values or nulls that are not allowed.
    """
    given = dict(settings)
    configs = {name: text for name, text in given.items() if text is not None}
    nulls = [f"Config {name} must not be null" for name, text in given.items() if text is None]
    return _checked(configs, defaults, problems=nulls)


def replaced_configs(settings: Sequence[Setting], defaults: TopicValues) -> dict[str, str]:
    """Return what a topic stores after AlterConfigs, which unsets all that it does not name.

    Raises:
        Refusal: INVALID_REQUEST for a null or a name that comes twice, INVALID_CONFIG for names or
            values that are not allowed.
    """
    _refuse_repeated(name for name, _ in settings)
    _refuse_nulls(name for name, text in settings if text is None)
    return _checked({name: text for name, text in settings if text is not None}, defaults)


def incremental_changes(
    stored: Mapping[str, str], changes: Sequence[ConfigChange], defaults: TopicValues
) -> dict[str, str | None]:
    """Return what IncrementalAlterConfigs changes of `stored`: a new value, or None to unset.

    APPEND and SUBTRACT start from the value in force, be it the topic's own or a default. DELETE
    of a name that nobody knows is allowed: it leaves the topic as it should be.

    Raises:
        Refusal: INVALID_REQUEST for a null, a name that comes twice or an unknown operation,
            INVALID_CONFIG for names or values that are not allowed.
    """
    _refuse_repeated(change.name for change in changes)
    deleted = {change.name for change in changes if change.operation == ConfigOperation.DELETE}
    _refuse_nulls(
        change.name for change in changes if change.value is None and change.name not in deleted
    )
    remaining = {
        name: text for name, text in stored.items() if name not in deleted and name in TOPIC_CONFIGS
    }
    in_force = read_topic_values(remaining, defaults)
    new = {
        change.name: _changed(change, in_force) for change in changes if change.name not in deleted
    }
    checked = _checked(remaining | new, defaults)
    unset: dict[str, str | None] = dict.fromkeys(deleted)
    return unset | {name: checked[name] for name in new}


def _changed(change: ConfigChange, in_force: TopicValues) -> str:
    text = change.value or ""
    match change.operation:
        case ConfigOperation.SET:
            return text
        case ConfigOperation.APPEND:
            items = _items_in_force(change.name, in_force)
            return ",".join([*items, *(item for item in _split(text) if item not in items)])
        case ConfigOperation.SUBTRACT:
            items = _items_in_force(change.name, in_force)
            return ",".join(item for item in items if item not in _split(text))
        case _:
            raise Refusal(
                ErrorCode.invalid_request,
                f"Unknown operation {change.operation} for config {change.name}",
            )


def _items_in_force(name: str, in_force: TopicValues) -> tuple[str, ...]:
    key = TOPIC_CONFIGS.get(name)
    if key is None:
        raise Refusal(ErrorCode.invalid_config, unknown_name("topic", name, TOPIC_CONFIGS))
    value = in_force[name]
    if key.type is not ConfigType.LIST or not isinstance(value, tuple):
        raise Refusal(
            ErrorCode.invalid_config, f"Config {name} is not a list: only SET and DELETE apply"
        )
    return value


def _split(text: str) -> list[str]:
    return [item.strip() for item in text.split(",")] if text.strip() else []


def _checked(
    configs: Mapping[str, str], defaults: TopicValues, *, problems: Sequence[str] = ()
) -> dict[str, str]:
    """Return `configs` as they are stored, or refuse all that is wrong with them."""
    wrong = [*problems]
    wrong += (
        unknown_name("topic", name, TOPIC_CONFIGS) for name in configs if name not in TOPIC_CONFIGS
    )
    values: TopicValues = {}
    try:
        values = read_topic_values(configs, defaults)
    except InvalidConfig as invalid:
        wrong += invalid.problems
    if wrong or (wrong := topic_conflicts(values)):
        raise Refusal(ErrorCode.invalid_config, "; ".join(wrong))
    return {name: format_value(values[name]) for name in configs}


def _refuse_repeated(names: Iterable[str]) -> None:
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise Refusal(
            ErrorCode.invalid_request, f"Configs given more than once: {', '.join(repeated)}"
        )


def _refuse_nulls(names: Iterable[str]) -> None:
    nulls = list(names)
    if nulls:
        raise Refusal(ErrorCode.invalid_request, f"Configs must not be null: {', '.join(nulls)}")
