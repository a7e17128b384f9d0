"""Answers, and what becomes one: a Produce's is made when its batches are committed."""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from types import CoroutineType
from typing import Any, Final

from broker.waiting import Timeouts, Wait

Answer = bytes | Sequence[bytes | memoryview] | None
"""A whole response frame, as one buffer or several; None for a request that is not answered."""

ENCODED: Final = (bytes, list, tuple, type(None))
"""What an Answer is made of; all else that handlers return at last is a response to encode."""

Reply = Answer | Awaitable[Answer]

AWAITED: Final = (CoroutineType, asyncio.Future)
"""What an awaitable answer is made of, if it is none of those below: to ask for Awaitable itself
would cost some calls."""


class AnswerWhen:
    """Who has an order of answers to keep calls `begin`, which costs no task; others await it.

    Attributes:
        futures: that it waits for; there may be none.
        timeout_s: it is made then, whatever is done; None for never.
        make: makes it, with what is done by then. May raise what a handler may.
    """

    __slots__ = ("futures", "make", "timeout_s")

    def __init__(
        self,
        futures: Sequence[asyncio.Future[Any]],
        timeout_s: float | None,
        make: Callable[[], Answer],
    ) -> None:
        self.futures = futures
        self.timeout_s = timeout_s
        self.make = make

    def begin(self, then: Callable[[], None], timeouts: Timeouts) -> None:
        """Call `then`, which must not raise, when the answer can be made."""
        if not self.futures:
            then()
            return
        wait = Wait(self.futures, then)
        if self.timeout_s is not None:
            timeouts.add(wait, self.timeout_s)

    def __await__(self) -> Generator[Any, None, Answer]:
        return self._wait().__await__()

    async def _wait(self) -> Answer:
        if self.futures:
            await asyncio.wait(self.futures, timeout=self.timeout_s)
        return self.make()


LATER: Final = (AnswerWhen, *AWAITED)
"""What all awaitable answers are made of."""
