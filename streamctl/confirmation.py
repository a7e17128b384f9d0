"""The question before something is deleted for good."""

from collections.abc import Callable

import typer

from streamctl.errors import Failure, UsageError
from streamctl.interrupts import EndedByInterrupt
from streamctl.standard_streams import is_somebody_there, read_or_not


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
    if not is_somebody_there():
        raise UsageError("deleting needs a yes", fix="add --yes to delete without being asked")
    if show is not None:
        with read_or_not():
            show()
    if not asked(question):
        raise Failure("nothing was deleted")


def asked(question: str) -> bool:
    """Return the answer of who sits there. Raises Failure if nobody reads the question."""
    try:
        with EndedByInterrupt():
            return typer.confirm(question, err=True)
    except BrokenPipeError:
        raise Failure("nobody reads the question", fix="--yes goes on without one") from None
    except typer.Abort as abort:
        if isinstance(abort.__context__, KeyboardInterrupt):  # not the end of the input
            raise KeyboardInterrupt from None
        raise
