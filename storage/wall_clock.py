"""The wall clock, which those who need it are handed, so that tests can set theirs."""

import time


def now_ms() -> int:
    """Return the time (Unix, ms)."""
    return time.time_ns() // 1_000_000
