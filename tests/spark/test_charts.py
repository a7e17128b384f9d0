"""Reports: whole files that need nothing else, with and without data."""

import re
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from spark.charts import lag as lag_module
from spark.charts.figures import (
    LatePayment,
    WindowRevenue,
    in_words,
    lag_figure,
    late_figure,
    revenue_figure,
)
from spark.charts.lag import Lag, LagLog, lag_of
from spark.charts.revenue_report import Numbers, page_of
from tests.spark.shopflow import START

LENGTH = timedelta(minutes=10)


def numbers() -> Numbers:
    windows = [
        WindowRevenue(
            start=START + number * LENGTH,
            end=START + (number + 1) * LENGTH,
            revenue=Decimal(number * 10),
            is_open=number > 6,
        )
        for number in range(9)
    ]
    late = [LatePayment(event_time=START, amount=Decimal(5), late_by_ms=90_000)]
    totals: list[Any] = [
        {"scope": "all", "key": None, "revenue": Decimal("1365.50"), "payments": 42},
        {"scope": "key", "key": "<script>", "revenue": Decimal(5), "payments": 1},
    ]
    return Numbers(
        windows=windows,
        late=late,
        late_amount=Decimal(5),
        aside={"late": 1, "duplicate": 3},
        totals=totals,
    )


def progress(latest: object, end: object) -> dict[str, Any]:
    source = {"startOffset": None, "endOffset": end, "latestOffset": latest}
    return {"timestamp": "2026-06-24T10:00:00.000Z", "numInputRows": 7, "sources": [source]}


def test_a_report_is_pictures_and_a_page_that_loads_nothing(tmp_path: Path) -> None:
    # Given what a run has
    lags = [Lag(time="2026-06-24T10:00:00+00:00", behind={"t-0": 5, "t-1": 2}, rows=3)]

    # When its report is written
    page_of(numbers(), lags).write(tmp_path / "report")

    # Then there are three pictures, and a page with all of them in it, and nothing half-written
    written = {path.name for path in (tmp_path / "report").iterdir()}
    assert written == {"revenue.png", "late.png", "lag.png", "index.html"}
    for name in ("revenue", "late", "lag"):
        assert (tmp_path / "report" / f"{name}.png").read_bytes().startswith(b"\x89PNG\r\n")
    page = (tmp_path / "report" / "index.html").read_text()
    assert page.count('src="data:image/png;base64,') == 3
    assert not re.search(r"(src|href)=\"?(https?:|//|\w+\.png)", page)
    assert "$1,365.50" in page
    assert "open, so far" in page
    assert "&lt;script&gt;" in page
    assert "<script>" not in page


def test_a_report_of_nothing_says_so(tmp_path: Path) -> None:
    # When nothing was read yet
    nothing = Numbers(windows=[], late=[], late_amount=Decimal(0), aside={}, totals=[])
    page_of(nothing, []).write(tmp_path)

    # Then the page has its pictures, and words in place of rows
    page = (tmp_path / "index.html").read_text()
    assert "No payment has been counted yet." in page
    assert "Every payment came before its watermark." in page
    assert "$0.00" in page


def test_axes_have_names_and_units() -> None:
    # When charts are drawn
    (revenue,) = revenue_figure(numbers().windows).axes
    lags = [Lag(time=f"2026-06-24T10:00:0{second}Z", behind={}, rows=0) for second in (0, 1)]
    (lag,) = lag_figure(lags).axes

    # Then who sees them knows what the numbers are
    assert (revenue.get_xlabel(), revenue.get_ylabel()) == (
        "start of the window (UTC)",
        "revenue ($)",
    )
    assert (lag.get_xlabel(), lag.get_ylabel()) == ("time (UTC)", "records behind")
    legend = revenue.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["closed", "open, so far"]


def test_late_payments_are_counted_though_not_all_are_drawn() -> None:
    # Given the two latest of many
    late = [LatePayment(event_time=START, amount=Decimal(5), late_by_ms=90_000)] * 2
    amount = Decimal("750000.50")

    # When they are drawn, then the words tell of all, and that these are a part
    figure = late_figure(late, count=250_000, amount=amount, counted=750_000)
    (words,) = (text.get_text() for text in figure.texts if "of all" in text.get_text())
    assert "250,000 payments, 25.0% of all, $750,000.50" in words
    assert words.endswith("drawn are the 2 latest")

    # And nothing of parts where all of them are
    figure = late_figure(late, count=2, amount=Decimal(10), counted=0)
    assert not any("drawn" in text.get_text() for text in figure.texts)


def test_lag_is_what_the_source_had_beyond_the_batch(tmp_path: Path) -> None:
    # Given a progress of the connector, and one of the direct source, of which Spark tells no ends
    connector = progress({"t": {"0": 10, "1": 4}}, {"t": {"0": 7, "1": 4}})
    direct = progress({"offsets": {"t": {"0": 9}}, "topicIds": {}}, {"offsets": {"t": {"0": 9}}})
    done_again = progress(None, {"t": {"0": 7, "1": 4}})

    # When they are noted, and read again
    log = LagLog(path=tmp_path / "report" / "lag.jsonl")
    log.note(connector)
    log.note(direct)
    log.note(done_again)
    with log.path.open("a") as lines:
        lines.write('\n{"time": "2026')  # and the machine dies
    log.note(connector)

    # Then what is known says how far behind every partition was
    assert [lag.behind for lag in log.read()] == [{"t-0": 3, "t-1": 0}] * 2
    found = lag_of(connector)
    assert found is not None
    assert found.total == 3
    assert LagLog(path=tmp_path / "none").read() == []


def test_of_a_lag_that_was_noted_for_long_the_end_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a file with more than is read of it, wherever that begins
    log = LagLog(path=tmp_path / "lag.jsonl")
    for behind in range(50):
        log.note(progress({"t": {"0": behind}}, {"t": {"0": 0}}))
    length = len(log.path.read_bytes().splitlines()[-1]) + 1
    for tail in range(3 * length, 4 * length):
        monkeypatch.setattr(lag_module, "TAIL_BYTES", tail)

        # Then the newest lines are known, the first of them whole
        found = [lag.total for lag in log.read()]
        assert found == list(range(50))[-len(found) :]
        assert 3 <= len(found) <= 4


def test_lengths_are_written_as_people_do() -> None:
    lengths = [timedelta(seconds=90), LENGTH, timedelta(hours=1), timedelta(days=2)]
    assert [in_words(length) for length in lengths] == ["90 s", "10 min", "1 h", "2 d"]
