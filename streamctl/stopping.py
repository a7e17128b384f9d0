"""Ctrl-C and SIGTERM as wishes: work in hand is finished, then the process ends as they mean."""

import signal
from types import FrameType, TracebackType
from typing import Final, Self

import typer

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
TERMINATED: Final = 128 + signal.SIGTERM  # what a shell says of a process that SIGTERM ended


class StopWish:
    """Catches the first Ctrl-C or SIGTERM; the second one interrupts as usual.

    Attributes:
        signal: what came; None while nothing did.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self._before = {number: signal.getsignal(number) for number in _SIGNALS}

    def __enter__(self) -> Self:
        for number in _SIGNALS:
            signal.signal(number, self._heard)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._restore()

    def end(self) -> None:
        """Raise what the signal stands for; do nothing if none came."""
        if self.signal == signal.SIGINT:
            raise KeyboardInterrupt
        if self.signal == signal.SIGTERM:
            raise typer.Exit(TERMINATED)

    def _heard(self, number: int, _frame: FrameType | None) -> None:
        self.signal = number
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
