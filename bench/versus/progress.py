"""What is being measured, and how much is left: a bar on a terminal, lines anywhere else."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from bench.versus.rounds import Say


@contextmanager
def progress(total: int) -> Iterator[Say]:
    """Give a function for the length of a block that tells people, on stderr, of `total` cases."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(console, total)
        return
    what = TextColumn("{task.description}")
    columns = (MofNCompleteColumn(), BarColumn(20), TimeRemainingColumn(), what)
    with Progress(*columns, console=console, speed_estimate_period=600) as bar:
        task = bar.add_task("starts", total=total)

        def say(what: str, done: int) -> None:
            bar.update(task, description=what, completed=done)

        yield say


def _lines(console: Console, total: int) -> Say:
    began_s = time.monotonic()

    def say(what: str, done: int) -> None:
        took_s = time.monotonic() - began_s
        left = f", {took_s / done * (total - done) / 60:.0f} min left" if done else ""
        console.print(f"{done} of {total}{left}; {what}", highlight=False, soft_wrap=True)

    return say
