"""What the host takes, as the kernel tells it."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.host import MOST, Attempts, Stopwatch, stolen_s

PRESSURE = "some avg10=1.0 avg60=2.0 avg300=3.0 total={}\nfull avg10=0.0 total=7\n"


@pytest.mark.parametrize(("stolen", "disturbed"), [(0.0, False), (1.9, False), (2.1, True)])
def test_much_is_a_fifth(stolen: float, disturbed: bool) -> None:
    seconds, taken = iter([0.0, 10.0]), iter([5.0, 5.0 + stolen])
    attempts = Attempts(lambda: next(taken), lambda: next(seconds))
    assert attempts.was_disturbed() == disturbed


def test_what_the_machine_says_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # Given what a kernel says of pressure, and of time that its host took
    pressure = tmp_path / "cpu"
    taken = {"steal": 8.0}
    monkeypatch.setattr("tests.support.host._PRESSURE", pressure)
    monkeypatch.setattr("psutil.cpu_times", lambda: SimpleNamespace(**taken))
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    pressure.write_text(PRESSURE.format(1_000_000))
    now_s = [0.0]
    stopwatch = Stopwatch(lambda: now_s[0])

    # When both go on, then what was waited is their sum, but not all of the time
    pressure.write_text(PRESSURE.format(3_500_000))
    taken["steal"] = 9.0
    assert stolen_s() == 4.5
    now_s[0] = 10.0
    assert stopwatch.waited_s() == 3.0
    assert stopwatch.is_within(8.0)
    assert not stopwatch.is_within(7.0)
    now_s[0] = 2.0
    assert stopwatch.waited_s() == 2.0 * MOST

    # And where the kernel has no such page, or no host, there is less to add up
    pressure.unlink()
    taken.clear()
    assert stolen_s() == 0
    assert Stopwatch().waited_s() == 0
