"""What flags, STREAMHOUSE_… variables and --config FILE.toml say, one over the other."""

import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic_settings import BaseSettings, EnvSettingsSource

from broker.process_title import hide_secrets

_COMMA_BEFORE_NAME: Final = re.compile(r",(?=\s*[a-z][\w.-]*\s*=)")
"""Values have commas, too. Kafka's names begin with a small letter, those in a distinguished name
(CN=…,OU=…) with a capital one."""

_OF_KUBERNETES: Final = re.compile(
    r"_SERVICE_(HOST|PORT(_\w+)?)=|_PORT=(tcp|udp|sctp)://|_PORT_\d+_(TCP|UDP|SCTP)(_[A-Z]+)?="
)
"""What tells pods of a Service, by its name: of one called `streamhouse`, STREAMHOUSE_PORT=tcp://…"""


def read_names(prefix: str) -> list[str]:
    """Return the names of variables that begin so, but of those that Kubernetes makes."""
    return [
        name
        for name, value in os.environ.items()
        if name.startswith(prefix) and _OF_KUBERNETES.search(f"{name}={value}") is None
    ]


def read_sources(
    settings_class: type[BaseSettings], flags: Mapping[str, Any], file: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what all of them say, by field name; of several the nearest counts.

    Groups of settings are merged name by name. `set` is a list of what each says of it, the nearest
    last: they have it in several forms, and a mistake in any of them is to be told.

    Raises:
        SettingsError: a variable that has to be JSON is none.
    """
    sources = (file, EnvSettingsSource(settings_class)(), flags)
    merged: dict[str, Any] = {}
    for source in sources:
        for name, value in source.items():
            below = merged.get(name)
            if isinstance(below, dict) and isinstance(value, dict):
                merged[name] = below | value
            else:
                merged[name] = value
    return merged | {"set": [source["set"] for source in sources if "set" in source]}


def read_file(path: Path) -> dict[str, Any]:
    """Return the keys of a --config file, with names in any case, as variables have them.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no TOML, or not in UTF-8.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"save it as UTF-8: {error}") from error
    return {name.lower(): value for name, value in tomllib.loads(text).items()}


def read_pairs(said: Iterable[object]) -> dict[str, str]:
    """Return broker settings by Kafka's names; of a name that comes twice the last one counts.

    Args:
        said: each is a table, name=value,name=value or a list of name=value.

    Raises:
        ValueError: it tells how to mend it, and shows no secret.
    """
    pairs: dict[str, str] = {}
    for one in said:
        match one:
            case dict():
                pairs |= _read_table(one)
            case str():
                pairs |= map(_read_pair, _COMMA_BEFORE_NAME.split(one))
            case list() | tuple():
                pairs |= map(_read_pair, one)
            case _:
                raise ValueError("use name=value")
    return pairs


def _read_pair(text: object) -> tuple[str, str]:
    name, separator, value = str(text).partition("=")
    if not separator or not name.strip():
        raise ValueError(f"{hide_secrets([str(text)])[0]!r}: use name=value")
    return name.strip(), value.strip()


def _read_table(table: Mapping[str, object]) -> dict[str, str]:
    """Return a TOML table's values as Kafka's configs have them."""
    if any(isinstance(value, dict) for value in table.values()):
        names = ", ".join(f'"{name}" = …' for name in _dotted_names(table) if "." in name)
        raise ValueError(f"quote names with dots: {names}")
    return {name: _format_toml(value) for name, value in table.items()}


def _dotted_names(table: Mapping[str, object]) -> Iterator[str]:
    """Yield what the names were before TOML took their dots for tables in tables."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from (f"{name}.{rest}" for rest in _dotted_names(value))
        else:
            yield name


def _format_toml(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case list():
            return ",".join(map(_format_toml, value))
        case _:
            return str(value)
