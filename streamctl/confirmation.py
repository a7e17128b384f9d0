"""The question before something is deleted for good."""

import sys
from collections.abc import Callable

import typer

from streamctl.errors import Failure, UsageError
from streamctl.interrupts import EndedByInterrupt


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
    with EndedByInterrupt():
        agreed = typer.confirm(question, err=True)
    if not agreed:
        raise Failure("nothing was deleted")
