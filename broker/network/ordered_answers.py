"""Answers of one connection, sent in the order of its requests (the protocol demands it)."""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial

from broker.network.answer_when import AWAITED, Answer, AnswerWhen, Reply
from broker.network.outbox import Backlog
from broker.waiting import Timeouts


class OrderedAnswers:
    """Holds answers back until those before them are there; what is ready goes out together.

    Args:
        send: writes buffers to the peer, if it is still there.
        refuse: ends the connection: an answer failed, so the ones after it have no place.
        backlog: where what is held back is counted.

    Attributes:
        held_bytes: of answers that are known before their turn.
    """

    def __init__(
        self,
        *,
        send: Callable[[list[bytes | memoryview]], None],
        refuse: Callable[[str], None],
        backlog: Backlog,
    ) -> None:
        self._send = send
        self._refuse = refuse
        self._backlog = backlog
        self._answers: deque[asyncio.Future[Answer]] = deque()
        self._added = self._gone = 0  # of all answers ever; the first that is owed is number _gone
        self._held: dict[int, int] = {}  # bytes by number
        self.held_bytes = 0
        self._flushing = False
        self._loop = asyncio.get_running_loop()
        self._timeouts = Timeouts()

    def __len__(self) -> int:
        return len(self._answers)

    def add(self, reply: Reply, done: Callable[[], None]) -> None:
        """Take the next request's reply; `done` is called once its answer is known."""
        answer: asyncio.Future[Answer]
        number = self._added
        self._added += 1
        if isinstance(reply, AnswerWhen):
            answer = self._loop.create_future()
            self._answers.append(answer)
            reply.begin(partial(self._make, reply.make, answer, done, number), self._timeouts)
            return
        if isinstance(reply, AWAITED):
            answer = reply if isinstance(reply, asyncio.Future) else self._loop.create_task(reply)
            answer.add_done_callback(partial(self._settled, done, number))
            self._answers.append(answer)
            return
        answer = self._loop.create_future()
        answer.set_result(reply)  # type: ignore[arg-type]  # what is later is one of LATER
        self._answers.append(answer)
        done()
        if number == self._gone:
            self.flush()
        else:
            self._hold(number, answer)

    async def wait_first(self) -> None:
        """Wait until the oldest answer that is owed is known."""
        await asyncio.wait([self._answers[0]])

    async def finish(self) -> None:
        """Wait for all answers and send them."""
        if self._answers:
            await asyncio.wait(list(self._answers))
            self.flush()

    def close(self) -> None:
        """Send nothing ever, keep nothing, and let go of who would: the peer is gone."""
        self._send = self._refuse = _drop
        for answer in self._answers:
            answer.add_done_callback(_look)
        self._answers.clear()
        self._gone = self._added
        self._held.clear()
        self._count(-self.held_bytes)

    def flush(self) -> None:
        """Send the answers that are now at the head of the line."""
        self._flushing = False
        ready: list[bytes | memoryview] = []
        while self._answers and self._answers[0].done():
            answer = self._answers.popleft()
            if self._held:
                self._count(-self._held.pop(self._gone, 0))
            self._gone += 1
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
        self,
        make: Callable[[], Answer],
        answer: asyncio.Future[Answer],
        done: Callable[[], None],
        number: int,
    ) -> None:
        try:
            answer.set_result(make())
        except Exception as error:  # noqa: BLE001 (`flush` tells)
            answer.set_exception(error.with_traceback(None))  # its frames have the answer
        self._settled(done, number, answer)

    def _settled(
        self, done: Callable[[], None], number: int, answer: asyncio.Future[Answer]
    ) -> None:
        done()
        if number > self._gone and not self._answers[0].done():  # else both go out at once
            self._hold(number, answer)
        if not self._flushing:  # the answers of one commit go out together
            self._flushing = True
            self._loop.call_soon(self.flush)

    def _hold(self, number: int, answer: asyncio.Future[Answer]) -> None:
        """Count an answer that waits for those before it."""
        if answer.cancelled() or answer.exception() is not None:
            return
        reply = answer.result() or ()
        size = len(reply) if isinstance(reply, bytes) else sum(map(len, reply))
        self._held[number] = size
        self._count(size)

    def _count(self, size: int) -> None:
        self.held_bytes += size
        self._backlog.bytes += size


def _drop(_: object) -> None:
    """Tell nobody."""


def _look(answer: asyncio.Future[Answer]) -> None:
    """Look at what nobody waits for any more: asyncio complains of errors that nobody sees."""
    if not answer.cancelled():
        answer.exception()
