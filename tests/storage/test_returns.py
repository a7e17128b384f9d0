"""Whether the next object waits for producers that were just answered."""

import pytest

from storage.returns import LONGEST_GAP_S, MOST_PASSED_OVER, Returns


def come(returns: Returns, *, at_s: list[float]) -> list[bool]:
    """Let batches come; return of each whether it was the last one that was waited for."""
    return [returns.missing > 0 and returns.arrived(now_s) for now_s in at_s]


def waits(returns: Returns, *, expected: int, now_s: float, gaps_s: list[float]) -> bool:
    """Answer an object of 8 ms, let batches come so long after each other; tell if it waited."""
    returns.answered(expected, took_s=0.008, now_s=now_s)
    waited = returns.wait_s(now_s) > 0
    for gap_s in gaps_s:
        now_s += gap_s
        come(returns, at_s=[now_s])
    returns.sealed(now_s + returns.wait_s(now_s))
    return waited


def test_all_that_were_answered_are_waited_for_while_they_come() -> None:
    returns = Returns()

    # When three were answered after 8 ms, then each is waited for, for 4 ms
    returns.answered(3, took_s=0.008, now_s=5.0)
    assert returns.wait_s(5.0) == pytest.approx(0.004)
    assert come(returns, at_s=[5.001, 5.0025]) == [False, False]
    assert returns.wait_s(5.003) == pytest.approx(0.0035)
    assert returns.wait_s(5.0066) == 0

    # And no longer once all of them have come
    assert come(returns, at_s=[5.003, 5.004]) == [True, False]
    assert returns.wait_s(5.003) == 0


def test_who_comes_late_is_not_waited_for_for_ever() -> None:
    returns = Returns()
    returns.answered(100, took_s=0.008, now_s=5.0)
    come(returns, at_s=[5.002, 5.004, 5.006, 5.008, 5.01])
    assert returns.wait_s(5.01) == pytest.approx(0.002)
    assert returns.wait_s(5.012) == 0


def test_a_slow_store_makes_nobody_wait_longer() -> None:
    returns = Returns()
    returns.answered(3, took_s=2.0, now_s=5.0)
    assert returns.wait_s(5.0) == pytest.approx(LONGEST_GAP_S)


def test_a_lone_producer_never_waits() -> None:
    returns = Returns()
    for number in range(100):
        returns.answered(1, took_s=0.008, now_s=number)
        assert come(returns, at_s=[number + 0.001]) == [True]
        assert returns.wait_s(number + 0.001) == 0
        returns.sealed(number + 0.001)


@pytest.mark.parametrize(
    "gaps_s",
    [
        pytest.param([0.001] * 3, id="few come"),
        pytest.param([0.0008] * 7, id="they come at the rate at which all come"),
    ],
)
def test_those_that_do_not_wait_for_answers_are_seldom_waited_for(gaps_s: list[float]) -> None:
    returns = Returns()
    waited = [waits(returns, expected=10, now_s=number, gaps_s=gaps_s) for number in range(100)]

    # Then that is tried less and less
    tried = [number for number, one in enumerate(waited) if one]
    assert tried == [0, 2, 5, 10, 19, 36, 53, 70, 87]
    assert MOST_PASSED_OVER == 16


def test_those_that_begin_to_come_back_are_waited_for_again() -> None:
    # Given producers that were often not worth waiting for
    returns = Returns()
    for number in range(36):
        waits(returns, expected=10, now_s=number, gaps_s=[])

    # When all of them come back at once, each time
    waited = [
        waits(returns, expected=10, now_s=number, gaps_s=[0.0002] * 10) for number in range(36, 50)
    ]

    # Then nothing is passed over, and only one after the next that do not
    assert all(waited)
    tried = [waits(returns, expected=10, now_s=number, gaps_s=[]) for number in range(50, 54)]
    assert tried == [True, False, True, False]
