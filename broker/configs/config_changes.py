"""What CreateTopics, AlterConfigs and IncrementalAlterConfigs (KIP-339) may set.

Pure functions from what a client sent to what is stored. Values are stored in the form that Kafka
shows them (no blanks, no plus), so that a description repeats exactly what is stored.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from kio.schema.errors import ErrorCode

from broker.configs.config_rules import TopicRules
from broker.refusals import Refusal
from storage.configs.config_types import (
    ConfigKey,
    ConfigType,
    ConfigValue,
    InvalidConfig,
    parse_value,
    shortened,
    told_of,
)

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


class ConfigRules(Protocol):
    """What may be set of one resource; broker/configs/config_rules.py has them."""

    @property
    def keys(self) -> Mapping[str, ConfigKey]:
        """Return all configs that it may have, by name."""

    def unknown(self, name: str) -> str:
        """Return the sentence that refuses a name that is not in `keys`."""

    def default(self, name: str) -> ConfigValue | None:
        """Return what is in force while it sets nothing; `name` is one of `keys`."""

    def checked(self, configs: Mapping[str, str]) -> dict[str, str]:
        """Return all its configs as they are stored, or refuse what is wrong with them.

        Raises:
            Refusal: with the code that Kafka has for it.
        """


def created_configs(settings: Iterable[Setting], rules: TopicRules) -> dict[str, str]:
    """Return what a new topic stores; of a name that comes twice the last counts, as in Kafka.

    Raises:
        Refusal: INVALID_CONFIG for names, values or nulls that are not allowed.
    """
    given = dict(settings)
    configs = {name: text for name, text in given.items() if text is not None}
    nulls = [name for name, text in given.items() if text is None]
    problems = told_of(nulls, lambda name: f"Config {shortened(name)} must not be null")
    return rules.checked(configs, problems=problems)


def replaced_configs(settings: Sequence[Setting], rules: ConfigRules) -> dict[str, str]:
    """Return what is stored after AlterConfigs, which unsets all that it does not name.

    Raises:
        Refusal: INVALID_REQUEST for a null or a name that comes twice; those of the rules.
    """
    _refuse_repeated(name for name, _ in settings)
    _refuse_nulls(name for name, text in settings if text is None)
    return rules.checked({name: text for name, text in settings if text is not None})


def incremental_changes(
    stored: Mapping[str, str], changes: Sequence[ConfigChange], rules: ConfigRules
) -> dict[str, str | None]:
    """Return what IncrementalAlterConfigs changes of `stored`: a new value, or None to unset.

    APPEND and SUBTRACT start from the value in force, be it what is stored or a default. DELETE of
    a name that nobody knows is allowed: it leaves the resource as it should be.

    Raises:
        Refusal: INVALID_REQUEST for a null, a name that comes twice or an unknown operation,
            INVALID_CONFIG where no list can be changed; those of the rules.
    """
    refuse_ambiguous(changes)
    deleted = {change.name for change in changes if change.operation == ConfigOperation.DELETE}
    remaining = {
        name: text for name, text in stored.items() if name not in deleted and name in rules.keys
    }
    new = {
        change.name: _changed(change, remaining, rules)
        for change in changes
        if change.name not in deleted
    }
    checked = rules.checked(remaining | new)
    unset: dict[str, str | None] = dict.fromkeys(deleted)
    return unset | {name: checked[name] for name in new}


def refuse_ambiguous(changes: Sequence[ConfigChange]) -> None:
    """Refuse changes that do not say what is to be.

    Raises:
        Refusal: INVALID_REQUEST for a name that comes twice, or a null that is not to be deleted.
    """
    _refuse_repeated(change.name for change in changes)
    _refuse_nulls(
        change.name
        for change in changes
        if change.value is None and change.operation != ConfigOperation.DELETE
    )


def _changed(change: ConfigChange, stored: Mapping[str, str], rules: ConfigRules) -> str:
    text = change.value or ""
    match change.operation:
        case ConfigOperation.SET:
            return text
        case ConfigOperation.APPEND:
            items = _items_in_force(change.name, stored, rules)
            return ",".join([*items, *(item for item in _split(text) if item not in items)])
        case ConfigOperation.SUBTRACT:
            items = _items_in_force(change.name, stored, rules)
            return ",".join(item for item in items if item not in _split(text))
        case _:
            raise Refusal(
                ErrorCode.invalid_request,
                f"Unknown operation {change.operation} for config {shortened(change.name)}",
            )


def _items_in_force(name: str, stored: Mapping[str, str], rules: ConfigRules) -> tuple[str, ...]:
    key = rules.keys.get(name)
    if key is None:
        raise Refusal(ErrorCode.invalid_config, rules.unknown(name))
    if key.type is not ConfigType.LIST:
        raise Refusal(
            ErrorCode.invalid_config, f"Config {name} is not a list: only SET and DELETE apply"
        )
    try:
        value = parse_value(key, stored[name]) if name in stored else rules.default(name)
    except InvalidConfig as invalid:  # another version stored it
        raise Refusal(ErrorCode.invalid_config, str(invalid)) from invalid
    assert isinstance(value, tuple)
    return value


def _split(text: str) -> list[str]:
    return [item.strip() for item in text.split(",")] if text.strip() else []


def _refuse_repeated(names: Iterable[str]) -> None:
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        listed = ", ".join(told_of(repeated, shortened))
        raise Refusal(ErrorCode.invalid_request, f"Configs given more than once: {listed}")


def _refuse_nulls(names: Iterable[str]) -> None:
    nulls = list(names)
    if nulls:
        listed = ", ".join(told_of(nulls, shortened))
        raise Refusal(ErrorCode.invalid_request, f"Configs must not be null: {listed}")
