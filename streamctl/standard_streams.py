"""Standard streams that are closed, full, or pipes that have seen enough."""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from typing import Final, TextIO

from streamctl.errors import Failure

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def standard_streams() -> Iterator[None]:
    """Run a command; it ends as done when the reader of its output has gone, as of `… | head`.

    Raises:
        Failure: standard output is closed, or its disk is full.
    """
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115 (for the whole process)
    if sys.stdout is None:
        raise Failure("standard output is closed", fix="send it to a file, or to /dev/null")
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="replace")  # what is done must not fail for want of a letter
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        discard(sys.stdout)
    except OSError as error:
        if error.errno not in _FULL:
            raise
        discard(sys.stdout)
        place = error.filename or "standard output"
        raise Failure(f"cannot write to {place}: {error.strerror}") from error
    except BaseException:  # how the command ends counts, whoever reads its output
        try:
            sys.stdout.flush()
        except OSError:
            discard(sys.stdout)
        raise


def is_somebody_there() -> bool:
    """Tell whether standard input is a terminal; a closed one is None."""
    return sys.stdin is not None and sys.stdin.isatty()


@contextmanager
def read_or_not() -> Iterator[None]:
    """Print on the way: the rest of the work is done all the same when the reader has gone."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        discard(sys.stdout)


def discard(stream: TextIO) -> None:
    """Let what is still buffered go nowhere: python's own flush at exit must not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
