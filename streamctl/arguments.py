"""Words of the command line: UTF-8 text, but for those that are a record's bytes."""

from collections.abc import Callable, Iterable

from streamctl.errors import UsageError
from streamctl.printable import printable_text
from streamctl.process_title import hide_secrets


def as_bytes(text: str) -> bytes:
    """Return a word's bytes as the shell passed them, UTF-8 or not."""
    return text.encode("utf-8", "surrogateescape")


def check_text(values: Iterable[object]) -> None:
    """Check that options' values are UTF-8 where they are text: librdkafka crashes on others.

    Args:
        values: strings and lists of them are looked at, nothing else.

    Raises:
        UsageError: one is not.
    """
    for value in values:
        for word in value if isinstance(value, list) else [value]:
            if isinstance(word, str) and not _is_text(word):
                (shown,) = hide_secrets([word])
                raise UsageError(f"'{printable_text(shown)}' is not UTF-8 text")


def not_empty(option: str) -> Callable[[str], str]:
    """Return the parser of an option that refuses what a variable is that was not set.

    Args:
        option: as people write it.
    """

    def parse(text: str) -> str:
        if not text.strip():
            raise UsageError(
                f"{option} is empty",
                fix="a variable that is not set? give a value, or leave it out",
            )
        return text

    return parse


def _is_text(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True
