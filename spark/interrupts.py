"""Ctrl-C in a process that has a Spark session."""

import signal
import threading
from types import FrameType


def interrupt_in_any_case() -> None:
    """Let Ctrl-C raise KeyboardInterrupt also while Java answers a call.

    pyspark's handler first tells Java to cancel all jobs, which fails then with another error.
    """
    cancel = signal.getsignal(signal.SIGINT)
    if not callable(cancel) or threading.current_thread() is not threading.main_thread():
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        try:
            cancel(number, frame)
        except Exception as error:  # of py4j, in the middle of something
            raise KeyboardInterrupt from error

    signal.signal(signal.SIGINT, interrupt)
