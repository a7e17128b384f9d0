"""Cold reads wait out a busy event loop, but not for ever."""

import asyncio

import pytest

from storage.reading.cold_pace import LONG_TURN_S, MOST_WAIT_S, ROUNDS, ColdPace
from tests.support import virtual_time


def waits(turns_s: list[float]) -> float:
    """Return for how long a cold read gave way to a loop whose turns, one by one, take so long."""

    async def main() -> float:
        loop = asyncio.get_running_loop()
        seen = iter(turns_s)
        readings = 0
        at_s = 0.0

        def clock() -> float:
            nonlocal readings, at_s
            readings += 1
            if readings % 2 == 0:  # before and after one turn
                at_s += next(seen)
            return at_s

        await ColdPace(clock).give_way()
        return loop.time()

    waited_s: float = virtual_time.run(main())
    return waited_s


def test_a_loop_with_little_to_do_is_not_waited_for() -> None:
    assert waits([LONG_TURN_S / 2]) == 0


def test_long_turns_are_waited_out() -> None:
    assert waits([0.005, LONG_TURN_S / 2]) == pytest.approx(0.01)
    assert waits([0.005, 0.003, 0.0]) == pytest.approx(0.016)


def test_a_read_goes_on_however_busy_the_broker_is() -> None:
    assert waits([1.0] * ROUNDS) == pytest.approx(ROUNDS * MOST_WAIT_S)
