"""An event loop whose clock jumps to the next timer: minutes of waiting pass at once."""

import asyncio
import selectors
from typing import Any


class _Selector(selectors.DefaultSelector):
    """Waits for nothing; what it was to wait for has then passed."""

    passed_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events: list[tuple[selectors.SelectorKey, int]] = super().select(0)
        if not events:
            assert timeout is not None, "everybody waits, and nobody is going to wake up"
            self.passed_s += max(timeout, 0.0)
        return events


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """For what neither threads nor other processes have a part in."""

    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.passed_s


def run(main: Any) -> Any:
    """Run a coroutine on a clock of its own that begins at 0; return its result."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)
