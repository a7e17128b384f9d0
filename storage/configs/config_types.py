"""Kafka's config values: their types, how text becomes a value, and what a tool is told of them.

Numbers and codes are those of DescribeConfigs (KIP-133, KIP-226, KIP-569). Parsing follows Apache
Kafka: blanks around a value do not count, numbers may have a plus, booleans any case, a list is
separated by commas and its empty text is the empty list.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import IntEnum
from itertools import islice

ConfigValue = bool | int | float | str | tuple[str, ...]
Check = Callable[[ConfigValue], str | None]
"""Tells what a value must be ("must be at least 1"), or None where it is fine."""

MOST_NAMED = 20
"""So many names of a request are told what is wrong with them: to look for near ones takes time."""

LONGEST_SHOWN = 200
"""Characters of a name or value that are repeated."""

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")
_DOUBLE = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_REPLICA = re.compile(r"[0-9]+:[0-9]+")
_LOGIN = re.compile(r"//\S*@")


class ConfigType(IntEnum):
    """The type of a config as DescribeConfigs v3 reports it."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


class ConfigSource(IntEnum):
    """Where a value comes from, as DescribeConfigs v1 reports it (KIP-226)."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


class InvalidConfig(ValueError):
    """One or more configs are not allowed; the message names each of them and what is."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigKey:
    """One row of a table of configs.

    Attributes:
        default: None where the config has no value unless it is set (log.retention.ms).
        check: what its type alone does not say.
    """

    name: str
    type: ConfigType
    default: ConfigValue | None
    doc: str
    check: Check | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigSynonym:
    """One place that a config's value may come from; the first of a list is the one that counts."""

    name: str
    value: str
    source: ConfigSource


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """A config as DescribeConfigs answers it.

    Attributes:
        value: None where the config is not set and has no default.
        synonyms: most specific first; empty where nothing but the key's own default counts.
    """

    key: ConfigKey
    value: str | None
    source: ConfigSource
    read_only: bool
    synonyms: tuple[ConfigSynonym, ...]


@dataclass(frozen=True, slots=True)
class Range:
    """A number from `minimum` to `maximum` (both inclusive), or equal to `also`."""

    minimum: int
    maximum: int | None = None
    also: int | None = None

    def __call__(self, value: ConfigValue) -> str | None:
        assert isinstance(value, int | float)
        if value == self.also:
            return None
        if value >= self.minimum and (self.maximum is None or value <= self.maximum):
            return None
        bounds = f"at least {self.minimum}"
        if self.maximum is not None:
            bounds = f"between {self.minimum} and {self.maximum}"
        return f"must be {bounds}" + ("" if self.also is None else f", or {self.also}")


@dataclass(frozen=True, slots=True)
class OneOf:
    """A string, or each item of a list, among `choices`; case counts."""

    choices: tuple[str, ...]

    def __call__(self, value: ConfigValue) -> str | None:
        items = value if isinstance(value, tuple) else (value,)
        if all(item in self.choices for item in items):
            return None
        return f"must be one of {', '.join(self.choices)}"


def replica_list(value: ConfigValue) -> str | None:
    """Check a list of throttled replicas (KIP-73): `*`, or items like 0:1."""
    assert isinstance(value, tuple)
    if value == ("*",) or all(_REPLICA.fullmatch(item) for item in value):
        return None
    return "must be * or a list of partition:broker"


def parse_value(key: ConfigKey, text: str) -> ConfigValue:
    """Return the value that `text` means for `key`.

    Raises:
        InvalidConfig: not of the key's type, or refused by its check.
    """
    value = _read(key.type, text.strip())
    if value is None:
        problem: str | None = f"must be {_WANTED[key.type]}"
    else:
        problem = key.check(value) if key.check else None
        if problem is None:
            return value
    shown = shortened(_LOGIN.sub("//...@", text))  # logs must not tell passwords
    raise InvalidConfig([f"Invalid value {shown!r} for config {key.name}: {problem}"])


def parse_values(
    texts: Mapping[str, str],
    keys: Mapping[str, ConfigKey],
    unknown: Callable[[str], str] | None,
) -> tuple[dict[str, ConfigValue], list[str]]:
    """Return the values that are allowed, by name, and what is wrong with the others.

    Args:
        texts: by name.
        keys: the table that they are in.
        unknown: the sentence that refuses a name that is not there; None if those do not count.
    """
    values: dict[str, ConfigValue] = {}
    problems: list[str] = []
    unknown_count = 0
    for name, text in texts.items():
        if name in keys:
            try:
                values[name] = parse_value(keys[name], text)
            except InvalidConfig as invalid:
                problems += invalid.problems
        elif unknown is not None:
            unknown_count += 1
            if unknown_count <= MOST_NAMED:
                problems.append(unknown(name))
    if unknown_count > MOST_NAMED:
        problems.append(_more(unknown_count - MOST_NAMED))
    return values, problems


def format_value(value: ConfigValue) -> str:
    """Return the text that Kafka shows for a value; parse_value reads it back."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value)


def integer(values: Mapping[str, ConfigValue | None], name: str) -> int:
    """Return the value of a config of type INT or LONG that always has one."""
    value = values[name]
    assert isinstance(value, int)
    return value


def strings(values: Mapping[str, ConfigValue | None], name: str) -> tuple[str, ...]:
    """Return the value of a config of type LIST."""
    value = values[name]
    assert isinstance(value, tuple)
    return value


def order_problems(
    values: Mapping[str, ConfigValue | None], smaller: str, larger: str
) -> list[str]:
    """Return a sentence if the value of `smaller` is more than that of `larger`."""
    low, high = integer(values, smaller), integer(values, larger)
    return [f"{smaller} ({low}) must not be more than {larger} ({high})"] if low > high else []


def unknown_name(kind: str, name: str, known: Iterable[str]) -> str:
    """Return the sentence that refuses a config name, with the nearest known ones if any."""
    shown = shortened(name)
    near = get_close_matches(shown, known, n=3, cutoff=0.75)
    return f"Unknown {kind} config name: {shown}" + (f" (near: {', '.join(near)})" if near else "")


def told_of(names: Collection[str], sentence: Callable[[str], str]) -> list[str]:
    """Return a sentence for each of the first names, and one for how many more there are."""
    sentences = [sentence(name) for name in islice(names, MOST_NAMED)]
    more = len(names) - len(sentences)
    return [*sentences, _more(more)] if more else sentences


def shortened(text: str) -> str:
    """Return a text of a client such that it can be repeated to it, and in the log."""
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


def _more(count: int) -> str:
    return f"{count} more like these"


_WANTED = {
    ConfigType.BOOLEAN: "true or false",
    ConfigType.STRING: "a string",
    ConfigType.INT: "a 32-bit integer",
    ConfigType.LONG: "a 64-bit integer",
    ConfigType.DOUBLE: "a decimal number",
    ConfigType.LIST: "a list without empty items",
}


def _read(kind: ConfigType, text: str) -> ConfigValue | None:
    match kind:
        case ConfigType.BOOLEAN:
            return {"true": True, "false": False}.get(text.lower())
        case ConfigType.STRING:
            return text
        case ConfigType.INT:
            return _read_integer(text, INT_MAX)
        case ConfigType.LONG:
            return _read_integer(text, LONG_MAX)
        case ConfigType.DOUBLE:
            return float(text) if _DOUBLE.fullmatch(text) else None
        case ConfigType.LIST:
            items = [item.strip() for item in text.split(",")] if text else []
            return tuple(dict.fromkeys(items)) if all(items) else None


def _read_integer(text: str, largest: int) -> int | None:
    if not _INTEGER.fullmatch(text):
        return None
    value = int(text)
    return value if -largest - 1 <= value <= largest else None
