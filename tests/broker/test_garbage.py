"""Cycles are found soon, and what is under way is not looked through again and again."""

import gc
import json
import subprocess
import sys
import weakref
from collections.abc import Iterator

import pytest

from broker.garbage import BURST, FEW, MIDDLE_EVERY, OLD_EVERY, GarbageRounds

STEADY = """
import gc, json
from collections import deque
from broker.garbage import GarbageRounds, settle_garbage_collector

found = []
settle_garbage_collector()
gc.callbacks.append(lambda phase, info: found.append(info["generation"]) if phase == "start" else 0)
under_way, rounds = deque(), GarbageRounds()
for second in range(2):
    for quarter in range(4):
        for _ in range(60_000):  # as many as 2,000 requests make, 9,000 of them at a time
            under_way.append([second])
            if len(under_way) > 9_000:
                under_way.popleft()
        rounds.collect()
print(json.dumps(found))
"""


class Knot:
    """Refers to itself."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def by_the_clock() -> Iterator[None]:
    """Leave nothing to the collector itself, as after settling."""
    before = gc.get_threshold()
    gc.set_threshold(BURST, MIDDLE_EVERY, OLD_EVERY)
    yield
    gc.set_threshold(*before)


def test_a_cycle_is_found_within_a_second() -> None:
    # Given rounds, and garbage that only a collection finds
    rounds = GarbageRounds()
    gone = weakref.ref(Knot())

    # When a second has passed
    generations = [rounds.collect() for _ in range(MIDDLE_EVERY)]

    # Then it is gone, and nothing but that was looked for
    assert gone() is None
    assert generations[-1] == 1
    assert 2 not in generations


def test_old_objects_are_looked_through_only_when_they_have_grown() -> None:
    # Given a minute's round, after which old objects have been counted
    rounds = GarbageRounds()
    minutes = [rounds.collect() for _ in range(OLD_EVERY)]
    assert minutes[-1] == 2

    # When nothing is added to them for a minute, Then they are left alone
    assert [rounds.collect() for _ in range(OLD_EVERY)][-1] is None

    # When a cycle among many others grows old, Then it is found by the next minute
    knot = Knot()
    gone = weakref.ref(knot)
    others = [[number] for number in range(len(gc.get_objects(generation=2)) // 4 + 2 * FEW)]
    gc.collect(1)
    del knot
    assert [rounds.collect() for _ in range(OLD_EVERY)][-1] == 2
    assert gone() is None
    assert others


def test_what_is_under_way_is_looked_through_by_the_clock_only() -> None:
    # Given, When two seconds of thousands of requests, as many of them under way as at full load
    run = subprocess.run(
        [sys.executable, "-c", STEADY], capture_output=True, text=True, timeout=60, check=True
    )

    # Then there was a collection for each quarter of a second, and no other
    assert len(json.loads(run.stdout)) <= 2 * 4
