"""What goes between broker and upkeep process: the order one way, reports the other."""

import math

import pytest
from prometheus_client import CollectorRegistry

from broker.config import read_settings
from broker.upkeep.upkeep_order import read_order, upkeep_order
from broker.upkeep.upkeep_report import Count, UpkeepCounts, UpkeepMetrics, Work, read_report
from storage.metadata.oldest_xmin import OldestXmin

DSN = "postgresql://user:secret@host/database"


def test_an_order_has_what_the_broker_was_told(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given settings from a variable and from flags
    monkeypatch.setenv("STREAMHOUSE_UPKEEP__SEGMENT_ROWS", "7")
    flags = {"store": "s3://bucket/log", "set": ["log.retention.ms=2592000000", "broker.rack=a b"]}
    settings, config = read_settings(flags, None)

    # When an order is made of them, then it arrives whole, and does not show its secret
    order = upkeep_order(settings, config, DSN)
    assert order is not None
    line = order.to_line()
    assert read_order(line) == order
    assert line.count(b"\n") == 1
    assert order.upkeep.segment_rows == 7
    assert order.set == {"log.retention.ms": "2592000000", "broker.rack": "a b"}
    assert order.store_url == "s3://bucket/log"
    assert "secret" not in repr(order)


@pytest.mark.parametrize("flags", [{"worker": 1}, {"upkeep": {"enabled": False}}])
def test_other_workers_and_who_does_not_want_it_have_none(flags: dict[str, object]) -> None:
    settings, config = read_settings(flags, None)
    assert upkeep_order(settings, config, DSN) is None


def test_counts_go_on_when_the_process_begins_anew() -> None:
    # Given a process that has built three segments
    registry, now_s = CollectorRegistry(), [100.0]
    metrics = UpkeepMetrics(registry, [Work.BUILD, Work.SWEEP], lambda: now_s[0])

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"streamhouse_upkeep_{name}", labels)

    counts = UpkeepCounts()
    for built in (1, 3):
        metrics.take(read_report(counts.report({Count.SEGMENTS_BUILT: built}).to_line()))

    # When it dies, and the next one has built two more
    metrics.died()
    counts = UpkeepCounts()
    counts.failed("build")
    counts.backlog = {"build": 4, "doomed": 9}
    metrics.take(read_report(counts.report({Count.SEGMENTS_BUILT: 2}).to_line()))

    # Then five are counted
    assert value("segments_built_total") == 5
    assert value("restarts_total") == 1
    assert value("failures_total", work="build") == 1
    assert value("backlog", kind="doomed") == 9


@pytest.mark.parametrize("seconds", [12.5, None])
def test_who_keeps_rows_is_exported_as_far_as_it_is_known(seconds: float | None) -> None:
    # Given a process that has found somebody, how old Postgres may not tell
    registry = CollectorRegistry()
    metrics, counts = UpkeepMetrics(registry, [], lambda: 0.0), UpkeepCounts()
    counts.oldest_xmin = OldestXmin(
        kind="standby",
        name="x",
        application="y",
        pid=1,
        transactions=7,
        seconds=seconds,
    )

    def values() -> list[float | None]:
        names = ("seconds", "age")
        return [
            registry.get_sample_value(f"streamhouse_postgres_oldest_transaction_{name}")
            for name in names
        ]

    # When it reports, and once more after that one has gone
    metrics.take(read_report(counts.report({}).to_line()))
    known = values()
    counts.oldest_xmin = None
    metrics.take(read_report(counts.report({}).to_line()))

    # Then so much is exported
    assert known == [pytest.approx(math.nan if seconds is None else seconds, nan_ok=True), 7]
    assert values() == [0, 0]


def test_the_age_of_a_round_is_since_its_last_success() -> None:
    # Given a process that begins at 100 s
    registry, now_s = CollectorRegistry(), [100.0]
    metrics = UpkeepMetrics(registry, [Work.BUILD, Work.SWEEP], lambda: now_s[0])
    counts = UpkeepCounts()

    def age_s(work: Work) -> float | None:
        return registry.get_sample_value(
            "streamhouse_upkeep_seconds_since_success", {"work": str(work)}
        )

    # When one of two rounds is done at 110 s, and reported again and again
    now_s[0] = 110.0
    counts.succeeded(Work.SWEEP)
    for now_s[0] in (110.0, 111.0, 112.0):
        metrics.take(counts.report({}))

    # Then each has its age
    assert age_s(Work.SWEEP) == 2
    assert age_s(Work.BUILD) == 12
    assert age_s(Work.COMPACT) is None
