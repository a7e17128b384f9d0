"""File descriptors: as many as this process may have, not as many as a shell happens to give.

A connection takes one. The soft limit is 1,024 nearly everywhere, for programs that use select();
the hard limit, which the JVM takes for itself, too, is what somebody has meant.
"""

from contextlib import suppress
from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit, setrlimit
from typing import Final

import structlog

ENOUGH: Final = 1 << 20
"""What Linux has for a hard limit at most, unless it is told otherwise."""

BESIDES: Final = 1_000
"""What a broker may need that are no clients' connections: files of objects, the stores."""

log = structlog.get_logger()


def raise_file_limit() -> None:
    """Raise the soft limit to the hard one, for this process and those that it starts."""
    soft, hard = getrlimit(RLIMIT_NOFILE)
    wanted = ENOUGH if hard == RLIM_INFINITY else min(hard, ENOUGH)
    if soft != RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):  # macOS has a lower limit than the one it tells
            setrlimit(RLIMIT_NOFILE, (wanted, hard))


def warn_of_few_files(max_connections: int) -> None:
    """Say that clients may take all descriptors, where they may: then nothing can be stored."""
    limit, needed = getrlimit(RLIMIT_NOFILE)[0], max_connections + BESIDES
    if limit != RLIM_INFINITY and limit < needed:
        log.warning(
            "clients may take all file descriptors",
            limit=limit,
            needed=needed,
            instead="a higher hard limit (ulimit -Hn), or a lower max.connections",
        )
