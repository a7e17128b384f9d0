"""Lines about refused connections: some of each kind, then how many more there were."""

from structlog.testing import capture_logs

from broker.network.refused_connections import LINES_PER_WINDOW, RefusalLog, Refused


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_each_kind_has_some_lines_in_a_second_and_then_a_count() -> None:
    # Given many refusals of one kind and one of another, at once
    clock = Clock()
    refusals = RefusalLog(clock)
    with capture_logs() as lines:
        for at in range(100):
            refusals.write("connection refused", kind=Refused.MALFORMED, peer=at)
        refusals.write("connection refused", kind=Refused.IDLE, peer="x")
        assert len(lines) == LINES_PER_WINDOW + 1
        refusals.flush()
        assert len(lines) == LINES_PER_WINDOW + 1, "the second is not over"

        # When it is over, then the log tells how many it has left out, once
        clock.now_s = 1.0
        refusals.flush()
        refusals.flush()
        assert lines[LINES_PER_WINDOW + 1 :] == [
            {
                "event": "refusals not logged one by one",
                "kind": Refused.MALFORMED,
                "count": 100 - LINES_PER_WINDOW,
                "log_level": "warning",
            }
        ]

        # And the next one is logged again
        refusals.write("connection refused", kind=Refused.MALFORMED, peer="y")
        assert lines[-1]["peer"] == "y"


def test_no_count_is_lost_when_nobody_flushes() -> None:
    clock = Clock()
    refusals = RefusalLog(clock)
    with capture_logs() as lines:
        for second in range(3):
            clock.now_s = float(second)
            for _ in range(10):
                refusals.write("connection refused", kind=Refused.STALLED)
        clock.now_s = 9.0
        refusals.flush()
    counted = sum(line.get("count", 1) for line in lines)
    assert counted == 30
