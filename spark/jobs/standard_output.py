"""Standard output that is full, or a pipe that has seen enough: a job ends as streamctl does."""

import errno
import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class OutputFull(Exception):
    """A disk takes no more; the message says which and why."""


@contextmanager
def standard_output() -> Iterator[None]:
    """Run a job; it ends as done when the reader of its output has gone, as of `… | head`.

    Raises:
        OutputFull: a disk is full, that of standard output or of a file.
    """
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        if not _has_reader_gone():  # it was of Java's
            raise
        _discard_output()
    except OSError as error:
        if error.errno not in _FULL:
            raise
        _discard_output()
        place = error.filename or "standard output"
        raise OutputFull(f"cannot write to {place}: {error.strerror}") from error
    except BaseException:  # how the job ends counts, whoever reads its output
        try:
            sys.stdout.flush()
        except OSError:
            _discard_output()
        raise


def _has_reader_gone() -> bool:
    output = select.poll()
    output.register(sys.stdout.fileno(), select.POLLOUT)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in output.poll(0))


def _discard_output() -> None:
    """Let what is still buffered go nowhere: python's own flush at exit must not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
