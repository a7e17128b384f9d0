"""Answers of one connection, sent in the order of its requests (the protocol demands it)."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from types import CoroutineType
from typing import Final

from broker.network.answer_when import Answer, AnswerWhen
from broker.waiting import Timeouts

Reply = Answer | Awaitable[Answer]

_AWAITED: Final = (CoroutineType, asyncio.Future)

LATER: Final = (AnswerWhen, *_AWAITED)
"""What an awaitable answer is made of: to ask for Awaitable itself would cost some calls."""


class OrderedAnswers:
    """Holds answers back until those before them are there; what is ready goes out together.

    Args:
        send: writes buffers to the peer, if it is still there.
        refuse: ends the connection: an answer failed, so the ones after it have no place.
    """

    def __init__(
        self, *, send: Callable[[list[bytes | memoryview]], None], refuse: Callable[[str], None]
    ) -> None:
        self._send = send
        self._refuse = refuse
        self._answers: deque[asyncio.Future[Answer]] = deque()
        self._flushing = False
        self._loop = asyncio.get_running_loop()
        self._timeouts = Timeouts()

    def __len__(self) -> int:
        return len(self._answers)

    def add(self, reply: Reply, done: Callable[[], None]) -> None:
        """Take the next request's reply; `done` is called once its answer is known."""
        answer: asyncio.Future[Answer]
        if isinstance(reply, AnswerWhen):
            answer = self._loop.create_future()
            self._answers.append(answer)
            reply.begin(partial(self._make, reply.make, answer, done), self._timeouts)
            return
        if isinstance(reply, _AWAITED):
            answer = reply if isinstance(reply, asyncio.Future) else self._loop.create_task(reply)
            answer.add_done_callback(partial(self._settled, done))
            self._answers.append(answer)
            return
        answer = self._loop.create_future()
        answer.set_result(reply)  # type: ignore[arg-type]  # what is later is one of LATER
        self._answers.append(answer)
        done()
        if len(self._answers) == 1:
            self.flush()

    async def wait_first(self) -> None:
        """Wait until the oldest answer that is owed is known."""
        await asyncio.wait([self._answers[0]])

    async def finish(self) -> None:
        """Wait for all answers and send them."""
        if self._answers:
            await asyncio.wait(list(self._answers))
            self.flush()

    def close(self) -> None:
        """Send nothing ever, and let go of who would: the peer is gone."""
        self._send = self._refuse = _drop

    def flush(self) -> None:
        """Send the answers that are now at the head of the line."""
        self._flushing = False
        ready: list[bytes | memoryview] = []
        while self._answers and self._answers[0].done():
            answer = self._answers.popleft()
            if answer.cancelled():
                continue
            error = answer.exception()
            if error is not None:
                self._send(ready)
                self._refuse(str(error))
                return
            reply = answer.result()
            if isinstance(reply, bytes):
                ready.append(reply)
            elif reply is not None:
                ready.extend(reply)
        self._send(ready)

    def _make(
        self, make: Callable[[], Answer], answer: asyncio.Future[Answer], done: Callable[[], None]
    ) -> None:
        try:
            answer.set_result(make())
        except Exception as error:  # noqa: BLE001 (`flush` tells)
            answer.set_exception(error.with_traceback(None))  # its frames have the answer
        self._settled(done, answer)

    def _settled(self, done: Callable[[], None], _: object) -> None:
        done()
        if not self._flushing:  # the answers of one commit go out together
            self._flushing = True
            self._loop.call_soon(self.flush)


def _drop(_: object) -> None:
    """Tell nobody."""
