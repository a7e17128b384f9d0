"""Tests that failed while the host took the processors are run again, when nothing else runs.

`pytest --postpone FILE` adds them to FILE, and they do not count as failed; `pytest @FILE` runs
them in another process, so with new brokers and topics, too. Without `--postpone` they fail.
"""

from collections.abc import Generator
from pathlib import Path
from typing import Final, Literal, cast

import pytest

from tests.support.host import Attempts

Outcome = Literal["passed", "failed", "skipped"]

POSTPONED: Final[str] = "postponed"
EXCUSE: Final = "The host took the processors away."


class Postponing:
    """A plugin of pytest.

    Args:
        attempts: what tells whether a test was disturbed.
        file: that takes their names; none for a process that hands its reports on (pytest-xdist).
    """

    def __init__(self, attempts: Attempts, file: Path | None) -> None:
        self._attempts = attempts
        self._file = file
        self._postponed: dict[str, str] = {}

    def pytest_runtest_logstart(self) -> None:
        self._attempts.begin()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.failed and call.excinfo is not None and self._excuses(call.excinfo.value):
            # pytest itself knows three outcomes; what others there are is for plugins to say.
            report.outcome = cast("Outcome", POSTPONED)
        return report

    def _excuses(self, error: BaseException) -> bool:
        """A fixture of many tests that failed raises the same error for the ones that follow."""
        if self._attempts.was_disturbed():
            error.add_note(EXCUSE)
        return EXCUSE in getattr(error, "__notes__", ())

    def pytest_report_teststatus(
        self, report: pytest.TestReport
    ) -> tuple[str, str, tuple[str, dict[str, bool]]] | None:
        if str(report.outcome) != POSTPONED:
            return None
        return POSTPONED, "P", (POSTPONED.upper(), {"yellow": True})

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if str(report.outcome) == POSTPONED:
            lines = report.longreprtext.splitlines()
            errors = (line.removeprefix("E").strip() for line in lines if line.startswith("E "))
            self._postponed[report.nodeid] = next(errors, lines[-1] if lines else "")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._postponed:
            terminalreporter.section("postponed, as the host took the processors away")
        for name, why in self._postponed.items():
            terminalreporter.write_line(f"{name}: {why}")

    def pytest_sessionfinish(self) -> None:
        if self._file is not None and self._postponed:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._file.open("a") as names:
                names.writelines(f"{name}\n" for name in self._postponed)
