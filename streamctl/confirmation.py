"""The question before something is deleted for good."""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer

from streamctl.errors import Failure, UsageError


def confirm_deletion(question: str, *, yes: bool, show: Callable[[], None] | None = None) -> None:
    """Ask before something is deleted for good, unless --yes said so.

    Args:
        question: names what goes.
        yes: of the command line.
        show: prints what goes, if that is more than the question says.

    Raises:
        UsageError: nobody is there to be asked.
        Failure: the answer was no.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("deleting needs a yes", fix="add --yes to delete without being asked")
    if show is not None:
        show()
    with _ended_by_interrupt():
        agreed = typer.confirm(question, err=True)
    if not agreed:
        raise Failure("nothing was deleted")


@contextmanager
def _ended_by_interrupt() -> Iterator[None]:
    """Let Ctrl-C end the process itself, which has nothing in hand.

    Python's own handler only notes the signal: one that comes just before the terminal is read
    would be heard after the next key.
    """
    heard = signal.getsignal(signal.SIGINT)
    if heard is signal.default_int_handler:  # not of a job in the background, which has none
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, heard)
