"""Waiting for futures, of which nearly always there is one."""

import asyncio
from collections.abc import Sequence
from typing import Any


class _Countdown:
    """Resolves a future when it was called often enough."""

    __slots__ = ("_left", "over")

    def __init__(self, count: int, loop: asyncio.AbstractEventLoop) -> None:
        self._left = count
        self.over: asyncio.Future[None] = loop.create_future()

    def __call__(self, _: asyncio.Future[Any] | None = None) -> None:
        self._left -= 1
        if self._left <= 0 and not self.over.done():
            self.over.set_result(None)

    def give_up(self) -> None:
        self._left = 0
        self()


async def wait_all(futures: Sequence[asyncio.Future[Any]], timeout_s: float | None) -> None:
    """Return when all are done, or the time is over; which are done, they tell themselves.

    As asyncio.wait, in a third of its calls: there is one for each Produce.

    Args:
        futures: at least one; their exceptions are left to the caller.
        timeout_s: None for ever.
    """
    loop = asyncio.get_running_loop()
    countdown = _Countdown(len(futures), loop)
    for future in futures:
        future.add_done_callback(countdown)
    timer = None if timeout_s is None else loop.call_later(timeout_s, countdown.give_up)
    try:
        await countdown.over
    finally:
        if timer is not None:
            timer.cancel()
