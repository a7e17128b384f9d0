"""Flow control, hedged GETs and health of a store, on a clock that jumps."""

import asyncio
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest

from storage.objects.flow_limit import FlowLimit
from storage.objects.hedged_gets import LEAST_LIMIT_S, HedgedGets
from storage.objects.store_health import (
    UNAVAILABLE_FAILURES,
    WINDOW_S,
    WRITES_S,
    StoreHealth,
    StoreState,
)
from tests.support import virtual_time


class NoAnswer(Exception):
    """What a scripted request fails with."""


@dataclass
class Script:
    """Requests that take scripted times; a negative one fails after that time.

    Attributes:
        cancelled: how many were given up.
        discarded: results that nobody wanted.
    """

    delays_s: list[float]
    sent: int = 0
    cancelled: int = 0
    discarded: list[int] = field(default_factory=list)

    async def ask(self) -> int:
        number = self.sent
        self.sent += 1
        delay_s = self.delays_s[number]
        try:
            await asyncio.sleep(abs(delay_s))
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if delay_s < 0:
            raise NoAnswer(number)
        return number

    async def discard(self, result: int) -> None:
        self.discarded.append(result)


def now() -> float:
    return asyncio.get_running_loop().time()


def hedged(delays_s: list[float], warm: int = 0) -> tuple[Any, Script, HedgedGets, float]:
    """Ask once after `warm` fast requests; return the outcome and when it came."""
    script = Script([0.01] * warm + delays_s)

    async def main() -> tuple[Any, Script, HedgedGets, float]:
        hedges = HedgedGets(now)
        for _ in range(warm):
            await hedges.first(script.ask, script.discard)
        began_s = now()
        outcome: Any
        try:
            outcome = await hedges.first(script.ask, script.discard)
        except NoAnswer as error:
            outcome = error
        return outcome, script, hedges, now() - began_s

    result: tuple[Any, Script, HedgedGets, float] = virtual_time.run(main())
    return result


def test_the_second_request_wins_where_the_first_hangs() -> None:
    outcome, script, hedges, took_s = hedged([60.0, 0.1])
    assert outcome == 1
    assert took_s == pytest.approx(LEAST_LIMIT_S + 0.1)
    assert (hedges.hedged, hedges.won, script.cancelled) == (1, 1, 1)


def test_the_first_request_may_still_win() -> None:
    outcome, script, hedges, took_s = hedged([0.5, 60.0])
    assert outcome == 0
    assert took_s == pytest.approx(0.5)
    assert (hedges.hedged, hedges.won, script.cancelled) == (1, 0, 1)


def test_two_answers_at_once_leave_one_to_be_discarded() -> None:
    outcome, script, hedges, _ = hedged([LEAST_LIMIT_S + 0.25, 0.25])
    assert outcome + sum(script.discarded) == 1
    assert hedges.hedged == 1


def test_a_failure_counts_only_when_no_request_is_left() -> None:
    outcome, _, _, took_s = hedged([-0.5, 1.0])
    assert outcome == 1
    assert took_s == pytest.approx(LEAST_LIMIT_S + 1.0)
    outcome, script, hedges, took_s = hedged([-0.1])
    assert isinstance(outcome, NoAnswer)
    assert (script.sent, hedges.hedged) == (1, 0), "a failure is for the caller to try again"
    outcome, *_ = hedged([-0.5, -0.2])
    assert isinstance(outcome, NoAnswer)


def test_a_store_that_is_slow_as_a_whole_is_not_asked_twice_as_much() -> None:
    async def main() -> tuple[int, float]:
        script = Script([5.0] * 1_000)
        hedges = HedgedGets(now)
        for _ in range(20):
            await asyncio.gather(*(hedges.first(script.ask, script.discard) for _ in range(20)))
        return hedges.hedged, hedges.limit_s

    count, limit_s = virtual_time.run(main())
    assert 0 < count <= 400 * 0.05 + 1
    assert limit_s == pytest.approx(5.0), "it has become used to it"


def test_a_cancelled_read_leaves_no_request() -> None:
    async def main() -> Script:
        script = Script([60.0, 60.0])
        reading = asyncio.create_task(HedgedGets(now).first(script.ask, script.discard))
        await asyncio.sleep(1.0)
        reading.cancel()
        await asyncio.wait([reading])
        return script

    script = virtual_time.run(main())
    assert (script.sent, script.cancelled) == (2, 2)


@pytest.mark.parametrize("cancellations", [1, 2])
@pytest.mark.parametrize("won_at_s", [LEAST_LIMIT_S + 0.1, 60.0])
def test_a_read_cancelled_while_requests_end_leaves_no_answer_open(
    won_at_s: float, cancellations: int
) -> None:
    discarded: list[int] = []

    async def main() -> None:
        # Given two requests that are answered all the same, a while after they were given up
        sent = 0

        async def ask() -> int:
            nonlocal sent
            sent += 1
            number = sent
            try:
                await asyncio.sleep(won_at_s - now() if number == 2 else 60.0)
            except asyncio.CancelledError:
                await asyncio.sleep(5.0)
            return number

        async def discard(result: int) -> None:
            discarded.append(result)

        # When the reader is cancelled, maybe again, while one or both of them are given up
        reading = asyncio.create_task(HedgedGets(now).first(ask, discard))
        for _ in range(cancellations):
            await asyncio.sleep(1.0)
            reading.cancel()
        await asyncio.wait([reading])
        assert reading.cancelled()
        assert sent == 2

    # Then both answers were let go of
    virtual_time.run(main())
    assert sorted(discarded) == [1, 2]


def test_a_limit_halves_once_for_what_was_under_way_and_grows_by_one_a_round() -> None:
    async def main() -> None:
        limit = FlowLimit(64, clock=now)

        async def request(*, refused: bool) -> float:
            async with limit.place() as number:
                began_s = now()
                await asyncio.sleep(0.1)
                if refused:
                    limit.refused(number)
                else:
                    limit.answered()
                return began_s

        await asyncio.gather(*(request(refused=True) for _ in range(16)))
        assert (limit.limit, limit.throttled) == (8, 16)
        began_s = await asyncio.gather(*(request(refused=False) for _ in range(16)))
        assert min(began_s) >= 0.2, "all pause"
        assert sum(one < 0.3 for one in began_s) <= 8
        assert 9 <= limit.limit <= 10
        for _ in range(3_000):
            await request(refused=False)
        assert limit.limit == 64

    virtual_time.run(main())


def test_pauses_double_while_the_store_goes_on_refusing_and_end_with_an_answer() -> None:
    async def main() -> list[float]:
        limit = FlowLimit(4, clock=now)
        began_s = []
        for refused in (True, True, True, True, True, True, True, False, True, True):
            async with limit.place() as number:
                began_s.append(now())
                if refused:
                    limit.refused(number)
                else:
                    limit.answered()
        assert limit.limit == 1
        return began_s

    began_s = virtual_time.run(main())
    pauses_s = [after - before for before, after in pairwise(began_s)]
    least = [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 0.0, 0.1]
    assert all(low <= one <= low * 1.5 for low, one in zip(least, pauses_s, strict=True))


def test_a_place_is_not_lost_with_whoever_waited_for_it() -> None:
    async def main() -> None:
        limit = FlowLimit(1, clock=now)

        async def hold(duration_s: float) -> None:
            async with limit.place():
                await asyncio.sleep(duration_s)

        tasks = [asyncio.create_task(hold(1.0)) for _ in range(4)]
        await asyncio.sleep(0.5)
        tasks[1].cancel()
        await asyncio.sleep(0.5)
        tasks[2].cancel()  # just when it is its turn
        await asyncio.wait(tasks)
        assert now() <= 3.0
        await hold(0.1)

    virtual_time.run(main())


@dataclass
class Clock:
    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s


def state_of(health: StoreHealth) -> StoreState:
    return health.state


def test_states_follow_the_last_outcomes() -> None:
    clock = Clock()
    health = StoreHealth(clock)
    assert state_of(health) is StoreState.OK

    for _ in range(20):
        health.answered("GET", 0.05, 1000)
    assert state_of(health) is StoreState.OK
    for _ in range(3):
        health.answered("GET", 1.5, 1000)
    assert state_of(health) is StoreState.SLOW, "a tenth of them was late"
    health.throttled("GET")
    assert state_of(health) is StoreState.THROTTLED
    for _ in range(3):
        health.failed("GET")
    assert state_of(health) is StoreState.UNAVAILABLE

    clock.now_s += 10 * WINDOW_S
    assert state_of(health) is StoreState.UNAVAILABLE, "until something answers"
    health.answered("GET", 0.1, 1)
    assert state_of(health) is StoreState.OK


@pytest.mark.parametrize(("verb", "other"), [("PUT", "GET"), ("GET", "PUT")])
def test_who_answers_one_verb_alone_is_unavailable(verb: str, other: str) -> None:
    # Given a store that is full, say, or does not let itself be read
    health = StoreHealth(Clock())
    for _ in range(UNAVAILABLE_FAILURES):
        health.failed(verb)
        for _ in range(20):
            health.answered(other, 0.1, 1)

    # Then it cannot be used, until that verb is answered
    assert state_of(health) is StoreState.UNAVAILABLE
    health.answered(verb, 0.1, 1)
    assert state_of(health) is StoreState.OK


def test_puts_that_failed_are_forgotten_where_nobody_puts_any_more() -> None:
    # Given a store that took nothing, so that clients have gone to other brokers
    clock = Clock()
    health = StoreHealth(clock)
    for _ in range(UNAVAILABLE_FAILURES):
        health.failed("PUT")
    clock.now_s += WRITES_S - 1
    assert state_of(health) is StoreState.UNAVAILABLE

    # When nothing was put for a while, then they may try it here again
    clock.now_s += 1
    assert state_of(health) is StoreState.OK


def test_large_answers_may_take_longer() -> None:
    health = StoreHealth(Clock())
    health.answered("GET", 2.5, 8 * 1024 * 1024)
    assert state_of(health) is StoreState.OK
    health.failed("GET")
    assert state_of(health) is StoreState.SLOW
