"""The log levels of this process, by package, changed while it runs (KIP-412).

They are those of the process: they are not stored, and the upkeep process has its own.
"""

import inspect
import logging
from typing import Final

from structlog import DropEvent
from structlog.typing import EventDict, WrappedLogger

ROOT: Final = "root"
LEVELS: Final = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50}
"""Kafka's names of levels, and the number that a line must have at least."""

AUDIT: Final = "audit"
"""The name that the lines of broker/security/audit.py have as their logger. It has no level."""

LOGGERS: Final = ("broker", ROOT, "storage")
"""Packages that log, and what counts for those whose level is not set."""

_NUMBERS: Final = logging.getLevelNamesMapping()
_BETWEEN: Final = ("structlog.", __name__)


class LogLevels:
    """What is logged."""

    def __init__(self) -> None:
        self._levels = {ROOT: "INFO"}

    def level(self, logger: str) -> str:
        """Return the level in force of one of LOGGERS, or of any other package."""
        return self._levels.get(logger, self._levels[ROOT])

    def set(self, logger: str, level: str) -> None:
        """Set the level of one of LOGGERS to one of LEVELS."""
        self._levels[logger] = level

    def unset(self, logger: str) -> None:
        """Let one of LOGGERS other than ROOT follow ROOT."""
        self._levels.pop(logger, None)

    def filter(self, _: WrappedLogger, method: str, event: EventDict) -> EventDict:
        """Drop what is below the level of the logger, if that has one; a structlog processor."""
        logger = event.get("logger") or _package()
        if logger != AUDIT and _NUMBERS[method.upper()] < LEVELS[self.level(logger)]:
            raise DropEvent
        return event


LOG_LEVELS: Final = LogLevels()
"""Those of this process."""


def _package() -> str:
    """Return the top-level package of the code that logs."""
    frame = inspect.currentframe()
    name = __name__
    while frame is not None and name.startswith(_BETWEEN):
        frame = frame.f_back
        name = frame.f_globals.get("__name__", "") if frame else ""
    return name.partition(".")[0]
