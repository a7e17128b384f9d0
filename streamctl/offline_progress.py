"""How far a long command has come, on stderr; nothing where nobody looks."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.progress import TimeElapsedColumn as Elapsed

from streamctl.output import notes


class Step(Protocol):
    """See storage/fsck/fsck.py."""

    @property
    def step(self) -> str: ...
    @property
    def done(self) -> int: ...
    @property
    def total(self) -> int: ...


class Bars:
    """One line for each step."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._tasks: dict[str, TaskID] = {}

    def show(self, step: Step) -> None:
        """Show how far a step has come."""
        if step.step not in self._tasks:
            for name in [name for name in self._tasks if name.startswith("reading ")]:
                self._progress.remove_task(self._tasks.pop(name))
            self._tasks[step.step] = self._progress.add_task(step.step)
        self._progress.update(self._tasks[step.step], completed=step.done, total=step.total or None)


@contextmanager
def progress_bars() -> Iterator[Bars]:
    """Show progress until the block ends."""
    console = notes()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Elapsed())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        yield Bars(progress)
