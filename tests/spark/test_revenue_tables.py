"""Revenue of ShopFlow's events against plain Python, whole and in batches."""

from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.testing import assertDataFrameEqual

from spark.charts.revenue_report import write_revenue_report
from spark.tables import late, revenue, windows
from spark.tables.late import Patience
from spark.tables.revenue import Rules
from spark.tables.windows import Lengths
from tests.spark import shopflow_answers as answers
from tests.spark.shopflow import Event, in_batches, order_events, trace
from tests.spark.shopflow_folds import Folded, fold

RULES: Final = Rules(
    patience=Patience(delay=timedelta(minutes=5)),
    lengths=Lengths(
        tumbling=timedelta(minutes=10),
        sliding=timedelta(minutes=30),
        slide=timedelta(minutes=10),
        gap=timedelta(minutes=3),
    ),
)


@pytest.fixture(scope="module")
def events() -> list[Event]:
    return order_events(20260624, 320)


@pytest.fixture(scope="module", params=[1, 3], ids=["one batch", "three batches"])
def folded(request: pytest.FixtureRequest, session: SparkSession, events: list[Event]) -> Folded:
    return fold(session, in_batches(4, events, request.param), RULES)


def expected(session: SparkSession, rows: list[tuple[Any, ...]], schema: str) -> DataFrame:
    return session.createDataFrame(rows, schema)


def test_the_running_total_of_the_seed(session: SparkSession) -> None:
    # Given the four payments, cut after the third as the seed's machine crashes there
    payments = trace()

    # When they are folded
    found = fold(session, [payments[:3], payments[3:]], RULES)

    # Then the total after each offset is the seed's
    totals = found.running.orderBy("offset").select("offset", "revenue")
    rows = [(0, Decimal(10)), (1, Decimal(35)), (2, Decimal(40)), (3, Decimal(100))]
    assertDataFrameEqual(totals, expected(session, rows, "offset long, revenue decimal(28,2)"))


def test_running_totals_are_those_of_plain_python(
    session: SparkSession, events: list[Event], folded: Folded
) -> None:
    # Given what a loop over the log adds up
    answer = answers.running(events, answers.verdicts(events, RULES.patience))

    # Then every payment has these totals, of its partition and of its key
    schema = "partition int, offset long, revenue decimal(28,2), key_revenue decimal(28,2)"
    rows = [(*place, *totals) for place, totals in answer.items()]
    columns = folded.running.select("partition", "offset", "revenue", "key_revenue")
    assertDataFrameEqual(columns, expected(session, rows, schema))

    # And what is carried has the same sums
    totals = {
        row.scope: row for row in revenue.totals(folded.carried).where("key is null").collect()
    }
    paid = [each for each in events if (each.partition, each.offset) in answer]
    assert totals["all"].revenue == sum(each.amount for each in paid if each.amount is not None)
    assert totals["all"].payments == len(answer)


def test_what_is_late_is_late_however_the_log_is_cut(
    session: SparkSession, events: list[Event], folded: Folded
) -> None:
    # Given the verdicts of a loop over the log
    answer = answers.verdicts(events, RULES.patience)

    # Then all that is not counted is aside, with its reason and how late it was
    rows = [
        (*place, verdict, answer.late_by_ms.get(place))
        for place, verdict in answer.of.items()
        if verdict not in {"counted", "other"}
    ]
    assert {row[2] for row in rows} == {"late", "duplicate", "unreadable"}
    schema = "partition int, offset long, reason string, late_by_ms long"
    columns = folded.aside.select("partition", "offset", "reason", "late_by_ms")
    assertDataFrameEqual(columns, expected(session, rows, schema))


def test_windows_are_those_of_plain_python_and_close_by_the_watermark(
    session: SparkSession, events: list[Event], folded: Folded
) -> None:
    # Given all windows of the payments in time, and the low watermark
    found = answers.verdicts(events, RULES.patience)
    answer = answers.windows(events, found, RULES.lengths)
    assert found.low is not None

    # Then those that end before it came out once, the others are open
    rows = {
        is_closed: [
            (*window, *amounts)
            for window, amounts in answer.items()
            if (window[3] < found.low) == is_closed
        ]
        for is_closed in (True, False)
    }
    assert rows[True]
    assert rows[False]
    assertDataFrameEqual(folded.closed_windows, expected(session, rows[True], windows.SCHEMA))
    assertDataFrameEqual(
        folded.carried.open_windows, expected(session, rows[False], windows.SCHEMA)
    )


def test_windows_and_late_payments_add_up_to_the_total(folded: Folded) -> None:
    # Given everything that came out
    every = folded.closed_windows.unionByName(folded.carried.open_windows)

    # When tumbling windows and late payments are added up
    counted = every.where(F.col("kind") == windows.TUMBLING).agg(F.sum("revenue")).first()
    too_late = folded.aside.where(F.col("reason") == late.LATE).agg(F.sum("amount")).first()
    total = revenue.totals(folded.carried).where(F.col("scope") == "all").first()

    # Then no payment is lost, none is in both
    assert counted is not None
    assert too_late is not None
    assert total is not None
    assert counted[0] + too_late[0] == total.revenue


def test_what_is_most_does_not_take_the_place_of_the_whole(
    session: SparkSession, tmp_path: Path
) -> None:
    # Given many partitions that have more than all together, for one has paid back
    rows = [("partition", f"t-{number}", Decimal(10), 1) for number in range(150)]
    rows += [("all", "", Decimal(5), 151), ("key", "customer-1", Decimal(5), 151)]
    nothing = session.createDataFrame([], windows.SCHEMA)

    # When
    write_revenue_report(
        tmp_path,
        closed=nothing,
        still_open=nothing,
        aside=session.createDataFrame([], late.ASIDE),
        totals=session.createDataFrame(rows, revenue.TOTALS),
        lags=[],
    )

    # Then
    page = (tmp_path / "index.html").read_text()
    assert "$5.00" in page
    assert "customer-1" in page
