"""Waiting for several futures, with one timer for all who wait."""

import asyncio
from functools import partial
from typing import Any

import pytest

from broker import waiting
from broker.network.answer_when import AnswerWhen
from broker.waiting import Timeouts, Wait
from tests.support import virtual_time


def unresolved() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()


async def test_it_waits_for_all() -> None:
    # Given two futures, one of which has failed
    failed, late = unresolved(), unresolved()
    failed.set_exception(ValueError("for the caller"))
    called: list[str] = []
    Wait([failed, late], partial(called.append, "over"))
    for _ in range(3):
        await asyncio.sleep(0)
    assert not called

    # When the other one is there, then it is over, once; the error is the caller's
    late.set_result(1)
    await asyncio.sleep(0)
    assert called == ["over"]
    assert isinstance(failed.exception(), ValueError)


def test_each_ends_at_its_time_whatever_the_order_in_which_they_began() -> None:
    async def scenario() -> None:
        # Given waits with different times, and some that are over before theirs
        loop, timeouts, ended = asyncio.get_running_loop(), Timeouts(), {}
        began_s = loop.time()

        def end(name: float) -> None:
            ended[name] = loop.time() - began_s

        for timeout_s in (0.06, 0.02, 0.04, 3_600.0):
            timeouts.add(Wait([unresolved()], partial(end, timeout_s)), timeout_s)
            resolved = unresolved()
            timeouts.add(Wait([resolved], partial(end, -timeout_s)), timeout_s)
            resolved.set_result(None)

        # When time goes by
        await asyncio.sleep(0.1)

        # Then each of those that were not over has ended at its time, and the last one waits
        assert [name for name in ended if name > 0] == [0.02, 0.04, 0.06]
        assert all(at_s == pytest.approx(name) for name, at_s in ended.items() if name > 0)
        assert sum(name < 0 for name in ended) == 4

    virtual_time.run(scenario())


async def test_what_is_over_is_let_go_of_whatever_its_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a client that gives each request another timeout, and one request that is never answered
    monkeypatch.setattr(waiting, "MOST_OVER", 20)
    timeouts = Timeouts()
    timeouts.add(Wait([unresolved()], lambda: None), 1_000.0)

    # When many are answered
    for number in range(500):
        answered = unresolved()
        timeouts.add(Wait([answered], lambda: None), 2_000_000.0 - number)
        answered.set_result(None)
        await asyncio.sleep(0)

    # Then few are remembered
    assert len(timeouts._waits) <= 22


async def test_what_is_under_way_is_not_looked_through_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given many requests under way, of a client that gives each of them less time than the last
    monkeypatch.setattr(waiting, "MOST_OVER", 10)
    timeouts, futures = Timeouts(), [unresolved() for _ in range(1_000)]
    looks, known = 0, timeouts._waits

    # When one after the other is added
    for number, future in enumerate(futures):
        timeouts.add(Wait([future], lambda: None), 2_000.0 - number)
        looks += timeouts._waits is not known
        known = timeouts._waits

    # Then they were looked through a few times, and are in the order of their ends
    assert looks < 10
    ends_s = [end_s for end_s, _ in timeouts._waits]
    assert len(ends_s) == len(futures)
    assert ends_s == sorted(ends_s)


async def test_who_is_gone_leaves_no_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given a request that may take days, and is answered
    monkeypatch.setattr(waiting, "LOOK_S", 0.01)
    timeouts, answered = Timeouts(), unresolved()
    timeouts.add(Wait([answered], lambda: None), 2_000_000.0)
    answered.set_result(None)

    # When nothing more comes, then soon nothing waits for that time any more
    await asyncio.sleep(0.05)
    assert not timeouts._waits
    assert timeouts._timer is None


async def test_an_answer_is_made_with_what_is_done_in_time() -> None:
    # Given an answer that waits for two futures, of which one comes
    early, late = unresolved(), unresolved()
    answer = AnswerWhen([early, late], 0.01, lambda: b"%d%d" % (early.done(), late.done()))
    early.set_result(None)

    # When it is awaited, then it is made when the time is over, and the other may come later
    assert await answer == b"10"
    late.set_result(None)
    assert await answer == b"11"
