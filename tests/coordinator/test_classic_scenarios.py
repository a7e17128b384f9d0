"""Golden scenarios: for each event, exactly these effects in exactly this order.

The files under scenarios/classic are the expectation; classic_script.py tells how they are read.
"""

from pathlib import Path

import pytest

from tests.coordinator.classic_script import Script

SCENARIOS = sorted((Path(__file__).parent / "scenarios" / "classic").glob("*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_group_does_what_the_scenario_says(path: Path) -> None:
    script = Script(path.read_text())
    assert script.play() == script.expected()
