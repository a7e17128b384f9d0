import asyncio
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from broker.network.answer_when import Answer, AnswerWhen
from broker.network.ordered_answers import OrderedAnswers
from broker.network.outbox import Backlog
from broker.network.refused_connections import CloseConnection
from tests.support import virtual_time


class Peer:
    """What the other end of a connection would see."""

    def __init__(self) -> None:
        self.received: list[bytes] = []
        self.refused: list[str] = []
        self.done: list[int] = []
        self.backlog = Backlog()
        self.answers = OrderedAnswers(
            send=self._send, refuse=self.refused.append, backlog=self.backlog
        )

    def _send(self, buffers: list[bytes | memoryview]) -> None:
        self.received += [bytes(buffer) for buffer in buffers]


@given(order=st.permutations(range(8)), immediate=st.sets(st.integers(0, 7)))
def test_answers_keep_the_order_of_requests(order: list[int], immediate: set[int]) -> None:
    async def scenario() -> None:
        # Given requests, some of them answered at once, the others in any order
        peer, pending = Peer(), {}
        for number in range(8):
            if number in immediate:
                peer.answers.add(b"%d" % number, partial(peer.done.append, number))
                continue
            pending[number] = asyncio.get_running_loop().create_future()
            peer.answers.add(pending[number], partial(peer.done.append, number))

        # When the last of them is answered
        for number in order:
            if number in pending:
                pending[number].set_result([b"%d" % number])
                await asyncio.sleep(0)
                await asyncio.sleep(0)

        # Then the peer has them in the order of the requests, each once
        assert peer.received == [b"%d" % number for number in range(8)]
        assert sorted(peer.done) == list(range(8))
        assert len(peer.answers) == 0
        assert peer.answers.held_bytes == peer.backlog.bytes == 0

    asyncio.run(scenario())


async def test_a_failed_answer_ends_the_connection_after_those_before_it() -> None:
    peer = Peer()
    loop = asyncio.get_running_loop()
    first, failed, last = (loop.create_future() for _ in range(3))
    for future in (first, failed, last):
        peer.answers.add(future, lambda: None)
    last.set_result(b"last")
    failed.set_exception(CloseConnection("no answer"))
    first.set_result(b"first")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert peer.received == [b"first"]
    assert peer.refused == ["no answer"]


async def test_what_is_held_back_is_counted_until_it_goes_out() -> None:
    # Given an answer that takes long, and behind it some that are there, one way or the other
    peer, loop = Peer(), asyncio.get_running_loop()
    first, second = loop.create_future(), loop.create_future()
    peer.answers.add(first, lambda: None)
    peer.answers.add(b"four", lambda: None)
    peer.answers.add(AnswerWhen([], None, lambda: [b"and", b"five"]), lambda: None)
    peer.answers.add(None, lambda: None)
    peer.answers.add(second, lambda: None)
    peer.answers.add(b"six", lambda: None)
    assert peer.answers.held_bytes == peer.backlog.bytes == 14

    # When it is there at last, then no more than what is behind the next one is held
    first.set_result(b"first")
    await asyncio.sleep(0.001)
    assert peer.received == [b"first", b"four", b"and", b"five"]
    assert peer.answers.held_bytes == peer.backlog.bytes == 3
    second.set_result(b"second")
    await asyncio.sleep(0.001)
    assert peer.answers.held_bytes == peer.backlog.bytes == 0


async def test_nothing_is_kept_for_a_peer_that_is_gone() -> None:
    # Given a peer that has gone while answers were held back for it
    peer, loop = Peer(), asyncio.get_running_loop()
    first, failed, last = (loop.create_future() for _ in range(3))
    for future in (first, failed, last):
        peer.answers.add(future, lambda: None)
    last.set_result(b"last")
    await asyncio.sleep(0.001)
    assert peer.backlog.bytes == 4
    peer.answers.close()

    # Then they are neither kept nor counted, nor is what comes later
    assert (len(peer.answers), peer.backlog.bytes) == (0, 0)
    failed.set_exception(CloseConnection("no answer"))
    peer.answers.add(b"late", lambda: None)
    first.set_result(b"first")
    await asyncio.sleep(0.001)
    assert (len(peer.answers), peer.backlog.bytes) == (0, 0)
    assert (peer.received, peer.refused) == ([], [])


async def test_finish_waits_for_what_is_owed() -> None:
    peer = Peer()

    async def later() -> Answer:
        await asyncio.sleep(0)
        return b"later"

    peer.answers.add(later(), lambda: None)
    peer.answers.add(None, lambda: None)
    peer.answers.add(b"last", lambda: None)
    await peer.answers.finish()
    assert peer.received == [b"later", b"last"]


def test_what_waits_for_a_commit_keeps_its_place_and_is_made_once() -> None:
    async def scenario() -> None:
        # Given requests whose answers wait for commits: of none, of two, of one that cannot tell
        peer, loop = Peer(), asyncio.get_running_loop()
        commits = [loop.create_future() for _ in range(3)]
        made: list[bytes] = []

        def make(answer: bytes) -> Answer:
            made.append(answer)
            return answer

        def fail() -> Answer:
            raise CloseConnection("acks=0")

        peer.answers.add(AnswerWhen(commits[:2], 30.0, partial(make, b"both")), lambda: None)
        peer.answers.add(AnswerWhen([], 30.0, partial(make, b"none")), lambda: None)
        peer.answers.add(AnswerWhen(commits[2:], None, fail), partial(peer.done.append, 3))
        peer.answers.add(b"never", lambda: None)

        # When commits come, the last ones first
        commits[2].set_result(None)
        commits[1].set_result(None)
        await asyncio.sleep(0.001)
        assert peer.received == []
        assert (made, peer.done) == ([b"none"], [3])
        commits[0].set_result(None)
        await asyncio.sleep(0.001)

        # Then the answers come in their order, and the connection ends where one cannot be told
        assert peer.received == [b"both", b"none"]
        assert made == [b"none", b"both"]
        assert peer.refused == ["acks=0"]

    virtual_time.run(scenario())


def test_an_answer_goes_out_when_its_time_is_over() -> None:
    async def scenario() -> None:
        peer = Peer()
        commit = asyncio.get_running_loop().create_future()
        peer.answers.add(AnswerWhen([commit], 0.01, lambda: b"too late"), lambda: None)
        await peer.answers.finish()
        assert peer.received == [b"too late"]
        commit.set_result(None)
        await asyncio.sleep(0.001)
        assert peer.received == [b"too late"]

    virtual_time.run(scenario())
