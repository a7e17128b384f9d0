"""Whatever producers, groups and brokers do, in any order: memory and Postgres answer the same."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.contracts.metadata_stores import KINDS
from tests.contracts.transaction_side import Side
from tests.contracts.transaction_stores import open_transactions
from tests.contracts.transaction_story import Story

EXAMPLES = 12
STEPS = st.lists(st.integers(0, 2**62), min_size=30, max_size=60)

_numbers = count(1)


@pytest.fixture(scope="module")
def runner_and_sides() -> Iterator[tuple[asyncio.Runner, list[Side]]]:
    """Both stores, on a loop that a test, which knows no await, can run by hand."""
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        sides = [
            Side(runner.run(stack.enter_async_context(open_transactions(kind)))) for kind in KINDS
        ]
        in_memory, in_postgres = (side.opened.store for side in sides)
        begun = runner.run(in_postgres.allocate_producer_ids(1))
        runner.run(in_memory.allocate_producer_ids(begun + 1))  # the same ids from now on
        yield runner, sides
        runner.run(stack.aclose())


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=STEPS)
def test_both_stores_answer_the_same_whatever_happens(
    runner_and_sides: tuple[asyncio.Runner, list[Side]], steps: list[int]
) -> None:
    runner, sides = runner_and_sides
    number = next(_numbers)
    story = Story(
        sides,
        names=[f"one-{number}", f"two-{number}"],
        group_ids=[f"g-{number}", f"h-{number}"],
    )
    runner.run(story.begin())
    for step in steps:
        runner.run(story.step(step))
