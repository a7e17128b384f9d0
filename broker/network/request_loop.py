"""Begins the requests of one connection in order, each when nothing stands in its way.

A handler may hand back an awaitable for its answer (Produce waits for its commit, with the next
Produce already on its way), so several are in flight together. Answers wait for those before them;
while many bytes do, nothing is begun.

A request that has begun goes on to its end, whatever becomes of its connection: what it changes is
then done whole, and told. A peer that ends the connection itself has the requests that came before
its end begun, too: a producer with acks=0 waits for nothing before it closes. So it is in Kafka.
But a login ends with its connection, and a Fetch: they change nothing, may wait for long, and who
comes back would wait behind them.
"""

import asyncio
from typing import TYPE_CHECKING, Final

from broker.network.client_session import ClientSession
from broker.network.frame_intake import FETCH, FrameIntake
from broker.network.ordered_answers import OrderedAnswers
from broker.network.reception import Reception
from broker.network.refused_connections import CloseConnection, Refused
from broker.quotas.muting import Muting
from protocol.errors import MalformedRequest, UnsupportedVersion

if TYPE_CHECKING:
    from broker.network.connection import Connection

MAX_IN_FLIGHT: Final = 4096
"""Of a producer that waits for none of its answers, at 7,000 requests a second and a store that
takes 100 ms, 700 are in flight; were there fewer it would be held up by that, not by the store.
What they take is counted as memory that clients hold (broker/network/memory.py)."""

MAX_HELD_BYTES: Final = 256 * 1024
"""Of answers that wait for one before them, which may be a JoinGroup and take minutes. Those of
Produce, of which many are to be in flight, have a hundred bytes each."""


class RequestLoop:
    """The requests of one connection.

    It has no attribute for its connection, which has one for it; what the connection has handed to
    the parts is let go of when it is lost.

    Attributes:
        writable: whether the socket takes more.
        handling: the API key of the request that is beginning.
        stopped: no more of them shall.
    """

    __slots__ = (
        "_answers",
        "_idle",
        "_intake",
        "_loop",
        "_muting",
        "_reception",
        "handling",
        "stopped",
        "writable",
    )

    def __init__(
        self, intake: FrameIntake, answers: OrderedAnswers, muting: Muting, reception: Reception
    ) -> None:
        self._intake = intake
        self._answers = answers
        self._muting = muting
        self._reception = reception
        self._idle: asyncio.Future[None] | None = None  # until there may be something to begin
        self._loop = asyncio.get_running_loop()
        self.writable = asyncio.Event()
        self.writable.set()
        self.handling: bytearray | None = None
        self.stopped = False

    async def run(self, connection: "Connection") -> None:
        """Begin what comes, until it is stopped; refuse the connection for what has no meaning."""
        intake, answers, memory = self._intake, self._answers, self._reception.memory
        dispatch, session = self._reception.dispatcher.dispatch, connection.session
        while not self.stopped:
            is_full = memory.begun_bytes >= memory.limit_bytes
            if not intake.queue or self._muting.is_on or (is_full and intake.holds(self.wake)):
                await self._wait(session)
                continue  # and look again at all of it, for while one waits the others change
            if not self.writable.is_set():
                await self.writable.wait()
                continue
            is_owed_much = len(answers) >= MAX_IN_FLIGHT or answers.held_bytes > MAX_HELD_BYTES
            if is_owed_much and not session.ended:
                await answers.wait_first()
                continue
            frame, held = intake.pop()
            self.handling = frame[:2]  # for who waits for records lets go of the frame
            try:
                reply = await dispatch(frame, connection, held.give_back)
            except BaseException as error:
                held.give_back()  # whether or not the peer is gone
                if isinstance(error, asyncio.CancelledError):
                    raise
                if not isinstance(error, CloseConnection | MalformedRequest | UnsupportedVersion):
                    connection.refuse(str(error), Refused.BUG)
                    raise
                connection.refuse(str(error))
                return
            finally:
                self.handling = None
            if not connection.trusted and session.authenticated:
                connection.trust()
            answers.add(reply, held.give_back)
            del frame, held, reply  # they would stay until the peer asks for more
            if not intake.reading:
                intake.read_on()

    async def _wait(self, session: ClientSession) -> None:
        """Wait until there may be more to begin; there is not once the peer is gone."""
        if session.ended:
            self.stopped = True
            return
        self._idle = self._loop.create_future()
        await self._idle

    def wake(self) -> None:
        """Look again: there may be more to begin."""
        idle, self._idle = self._idle, None
        if idle is not None and not idle.done():
            idle.set_result(None)

    def changes_nothing(self, *, trusted: bool) -> bool:
        """Whether what is under way does not: nothing, a login, or a Fetch."""
        return self.handling is None or not trusted or self.handling == FETCH
