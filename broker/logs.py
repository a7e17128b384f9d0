"""Logs: one JSON object a line on stderr, or coloured text where a person watches.

Names that clients choose (client.id, topic, group …) are among the values. None of them can begin
a line, move a terminal's cursor or fill the log: JSON escapes, text is escaped here, both are cut.
"""

import logging
from typing import Final

import structlog
from structlog.typing import EventDict, Processor

from broker.configs.log_levels import LOG_LEVELS
from storage.log_lines import log_file

MOST_CHARACTERS: Final = 256
MOST_CHARACTERS_OF_A_REASON: Final = 4096

_REASONS: Final = ("reason", "said")
_LINES: Final = "\n\t"
_UNCUT: Final = ("event", "exception")  # ours, and as long as the traceback is

log = structlog.get_logger()


def configure_logs() -> None:
    """Set up structlog for this process; what libraries log and warn of goes through it, too."""
    file = log_file()
    structlog.configure(
        processors=[
            LOG_LEVELS.filter,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            cut,
            *renderers(for_person=file.isatty()),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        logger_factory=structlog.WriteLoggerFactory(file),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(handlers=[LibraryHandler()])
    logging.captureWarnings(capture=True)


class LibraryHandler(logging.Handler):
    """Makes an entry of what a library logs: asyncio tells of tasks and callbacks that failed."""

    def emit(self, record: logging.LogRecord) -> None:
        tell = log.error if record.levelno >= logging.ERROR else log.warning
        tell(
            "a library reports",
            library=record.name,
            reason=record.getMessage(),
            exc_info=record.exc_info,
        )


def renderers(*, for_person: bool) -> list[Processor]:
    """Return what makes a line of an entry."""
    if for_person:
        return [escape, structlog.dev.ConsoleRenderer()]
    return [structlog.processors.JSONRenderer()]


def cut(_logger: object, _method: str, entry: EventDict) -> EventDict:
    """Shorten what clients may have made long."""
    for name, value in entry.items():
        if isinstance(value, str) and len(value) > MOST_CHARACTERS and name not in _UNCUT:
            most = MOST_CHARACTERS_OF_A_REASON if name in _REASONS else MOST_CHARACTERS
            if len(value) > most:
                entry[name] = f"{value[:most]}… ({len(value)} characters)"
    return entry


def escape(_logger: object, _method: str, entry: EventDict) -> EventDict:
    """Make all text printable; JSON does that by itself."""
    return {name: _printable(value, name) for name, value in entry.items()}


def _printable(value: object, name: str) -> object:
    """Return a value that shows as it is: with no control character, at any depth."""
    if isinstance(value, str):
        keep = _LINES if name == "exception" else ""
        if value.isprintable():
            return value
        return "".join(
            character
            if character.isprintable() or character in keep
            else character.encode("unicode_escape").decode()
            for character in value
        )
    if isinstance(value, int | float | None):
        return value
    text = repr(value)  # of a container, or of whatever else: repr() escapes what is inside
    return text if text.isprintable() else _printable(text, name)
