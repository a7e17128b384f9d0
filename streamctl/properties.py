"""Client properties from `-X key=value` and from files as Java clients read them."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from streamctl.errors import Failure, UsageError
from streamctl.process_title import hide_secrets

_LINE_END = re.compile(r"\r\n|\n|\r")  # not splitlines(): values may hold U+2028
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_KEY = re.compile(r"((?:\\.|[^\\=:\s])*)\s*[=:\s]?\s*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)


def parse_properties(text: str) -> dict[str, str]:
    r"""Return the properties in a .properties text: `key=value`, `key: value` or `key value`.

    Lines that start with # or ! are comments, a backslash at the end joins two lines, and
    \t \n \uXXXX stand for characters. Of a key given twice the last value counts.
    """
    properties = {}
    for line in _logical_lines(text):
        match = _KEY.fullmatch(line)
        assert match is not None  # every part of the pattern may be empty
        properties[_unescape(match[1])] = _unescape(match[2])
    return properties


def read_properties(path: Path) -> dict[str, str]:
    """Return the properties of a file.

    Raises:
        UsageError: it is no file but a setting, as Apache Kafka's tools take them.
        Failure: it cannot be read, or is not text.
    """
    try:
        return parse_properties(path.read_text(encoding="utf-8"))
    except OSError as error:
        if "=" in path.name and not path.exists():
            (shown,) = hide_secrets([str(path)])
            raise UsageError(
                f"--config {shown} is no file of client properties",
                fix=f"a topic's setting is --set {shown}, a client's property -X {shown}",
            ) from error
        raise Failure(f"cannot read --config {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise Failure(f"--config {path} is not UTF-8 text") from error


def parse_pairs(option: str, assignments: Iterable[str]) -> list[tuple[str, str]]:
    """Return `name=value` words as pairs; the value may be empty, the name may not.

    Raises:
        UsageError: a word has no name or no equals sign.
    """
    pairs = []
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or not name.strip():
            shown = hide_secrets([assignment])[0]
            raise UsageError(f"{option} {shown!r} is not of the form name=value")
        pairs.append((name.strip(), value))
    return pairs


def parse_assignments(option: str, assignments: Iterable[str]) -> dict[str, str]:
    """Return parse_pairs as a mapping: of a name given twice the last value counts."""
    return dict(parse_pairs(option, assignments))


def parse_lists(option: str, assignments: Iterable[str]) -> list[tuple[str, str]]:
    """Return parse_pairs with the items of each name in one value: a request has a name once."""
    items: dict[str, list[str]] = {}
    for name, item in parse_pairs(option, assignments):
        items.setdefault(name, []).append(item)
    return [(name, ",".join(values)) for name, values in items.items()]


def _logical_lines(text: str) -> Iterator[str]:
    pending = ""
    for raw in _LINE_END.split(text):
        line = raw.lstrip()
        if not pending and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:  # an even number is escaped backslashes, not a continuation
            pending += line[:-1]
            continue
        yield pending + line
        pending = ""
    if pending:
        yield pending


def _unescape(text: str) -> str:
    def replace(match: re.Match[str]) -> str:
        escaped = match[1]
        if len(escaped) > 1:
            return chr(int(escaped[1:], 16))
        return _ESCAPES.get(escaped, escaped)

    return _ESCAPE.sub(replace, text)
