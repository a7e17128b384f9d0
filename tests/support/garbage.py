"""The next test does not answer for what one that failed did not come to close.

Such a test leaves sockets and files in the frames of its traceback. Whoever collects them is warned
of them, and with warnings as errors, the test that runs by then fails.
"""

import gc
import sys
import warnings

import pytest


class FailedTestsGarbage:
    """A plugin of pytest that collects what a failed test has left, without warnings."""

    def __init__(self) -> None:
        self._is_left = False

    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> None:
        self._is_left |= call.excinfo is not None

    def pytest_runtest_logfinish(self) -> None:
        if self._is_left:
            sys.last_value = sys.last_traceback = None  # of pytest, for debuggers
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                gc.collect()
        self._is_left = False
