"""Whatever is written, built, retained, deleted and swept, in any order: the index stays whole."""

import asyncio
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.contracts.metadata_stores import KINDS
from tests.contracts.segment_machine import SegmentMachine
from tests.contracts.segment_side import Segments, open_segments

EXAMPLES = {"memory": 80, "postgres": 6}


@pytest.fixture(params=KINDS)
def kind_runner_segments(
    request: pytest.FixtureRequest,
) -> Iterator[tuple[str, asyncio.Runner, Segments]]:
    """A store on a loop that a machine, which knows no await, can run by hand."""
    with asyncio.Runner() as runner:
        opening = open_segments(request.param)
        segments = runner.run(opening.__aenter__())
        yield request.param, runner, segments
        runner.run(opening.__aexit__(None, None, None))


def test_the_index_stays_whole_whatever_happens(
    kind_runner_segments: tuple[str, asyncio.Runner, Segments],
) -> None:
    kind, its_runner, its_segments = kind_runner_segments

    class Machine(SegmentMachine):
        runner = its_runner
        segments = its_segments

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=EXAMPLES[kind],
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
