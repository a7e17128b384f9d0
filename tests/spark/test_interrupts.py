"""Ctrl-C ends a job, whatever Java is doing."""

import signal
from types import FrameType

import pytest
from py4j.protocol import Py4JError

from spark.interrupts import interrupt_in_any_case


def test_ctrl_c_interrupts_while_java_answers_a_call() -> None:
    # Given pyspark's handler at a moment at which it cannot tell Java anything
    def cancel(_number: int, _frame: FrameType | None) -> None:
        raise Py4JError("An error occurred while calling o1.cancelAllJobs")

    before = signal.signal(signal.SIGINT, cancel)
    try:
        interrupt_in_any_case()

        # When Ctrl-C comes, then it is one
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
