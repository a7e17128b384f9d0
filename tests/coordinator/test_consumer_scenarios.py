"""Golden scenarios: for each event, exactly these effects in exactly this order.

The files under scenarios/consumer are the expectation; consumer_script.py tells how they are read.
In those under scenarios/large_consumer each partition and member stands for thousands.
"""

from pathlib import Path

import pytest

from coordinator import consumer_core
from tests.coordinator.consumer_script import Script

FOLDER = Path(__file__).parent / "scenarios"
SCENARIOS = sorted((FOLDER / "consumer").glob("*.txt"))
OF_LARGE_GROUPS = sorted((FOLDER / "large_consumer").glob("*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_group_does_what_the_scenario_says(path: Path) -> None:
    script = Script(path.read_text())
    assert script.play() == script.expected()


@pytest.mark.parametrize("path", OF_LARGE_GROUPS, ids=lambda path: path.stem)
def test_a_large_group_does_what_the_scenario_says(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_core, "REST_US_EACH", 100_000)
    script = Script(path.read_text())
    assert script.play() == script.expected()
