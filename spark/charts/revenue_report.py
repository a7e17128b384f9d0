"""The revenue job's report: what its tables have, as numbers, pictures and rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812

from spark.charts.figures import (
    LatePayment,
    WindowRevenue,
    in_words,
    lag_figure,
    late_figure,
    revenue_figure,
)
from spark.charts.lag import Lag
from spark.charts.page import Page, Picture, Table
from spark.tables.late import LATE
from spark.tables.windows import TUMBLING

MOST_WINDOWS: Final = 2000
MOST_LATE: Final = 100_000
MOST_ROWS: Final = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """What the report shows, out of Spark.

    Attributes:
        windows: tumbling ones, by time; the newest MOST_WINDOWS.
        late: the MOST_LATE latest, latest first.
        late_amount: of all that are late.
        aside: rows by reason.
        totals: rows of revenue.TOTALS: of all, and of the MOST_ROWS keys that paid most.
    """

    windows: Sequence[WindowRevenue]
    late: Sequence[LatePayment]
    late_amount: Decimal
    aside: dict[str, int]
    totals: Sequence[Row]


def write_revenue_report(
    directory: Path,
    *,
    closed: DataFrame,
    still_open: DataFrame,
    aside: DataFrame,
    totals: DataFrame,
    lags: Sequence[Lag],
) -> None:
    """Write revenue.png, late.png, lag.png and index.html.

    Args:
        directory: made if it is missing.
        closed: of windows.SCHEMA.
        still_open: of windows.SCHEMA.
        aside: of late.ASIDE.
        totals: of revenue.TOTALS.
        lags: in order of time.
    """
    by_reason = aside.groupBy("reason")
    sums = by_reason.agg(F.count("*").alias("rows"), F.sum("amount").alias("amount")).collect()
    numbers = Numbers(
        windows=_windows(closed, still_open),
        late=_late(aside),
        late_amount=next((row["amount"] for row in sums if row["reason"] == LATE), Decimal(0)),
        aside={row["reason"]: row["rows"] for row in sums},
        totals=_totals(totals),
    )
    page_of(numbers, lags).write(directory)


def page_of(numbers: Numbers, lags: Sequence[Lag]) -> Page:
    """Return the report, without Spark."""
    everything = next((row for row in numbers.totals if row["scope"] == "all"), None)
    revenue = Decimal(0) if everything is None else everything["revenue"]
    payments = 0 if everything is None else everything["payments"]
    late = numbers.aside.get(LATE, 0)
    return Page(
        title="ShopFlow revenue",
        subtitle=f"as of {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC",
        tiles=(
            ("revenue", f"${revenue:,.2f}"),
            ("payments", f"{payments:,}"),
            ("late", f"{late:,}"),
            ("duplicates", f"{numbers.aside.get('duplicate', 0):,}"),
            ("unreadable", f"{numbers.aside.get('unreadable', 0):,}"),
            ("records behind", f"{lags[-1].total:,}" if lags else "unknown"),
        ),
        pictures=(
            Picture(
                name="revenue",
                description="Revenue by tumbling window of event time",
                figure=revenue_figure(numbers.windows),
            ),
            Picture(
                name="late",
                description="When late payments were made, and how late they came",
                figure=late_figure(
                    numbers.late, count=late, amount=numbers.late_amount, counted=payments - late
                ),
            ),
            Picture(
                name="lag",
                description="Records behind the end of the topic, over time",
                figure=lag_figure(lags),
            ),
        ),
        tables=(_window_rows(numbers.windows), _late_rows(numbers.late), _keys(numbers.totals)),
    )


def _windows(closed: DataFrame, still_open: DataFrame) -> list[WindowRevenue]:
    known = closed.withColumn("is_open", F.lit(False)).unionByName(
        still_open.withColumn("is_open", F.lit(True))
    )
    rows = known.where(F.col("kind") == TUMBLING).orderBy(F.desc("window_start"))
    columns = ("revenue", "is_open")
    found = [
        WindowRevenue(
            start=_utc(row["start"]),
            end=_utc(row["end"]),
            revenue=row["revenue"],
            is_open=row["is_open"],
        )
        for row in rows.limit(MOST_WINDOWS)
        .select(
            F.unix_micros("window_start").alias("start"),
            F.unix_micros("window_end").alias("end"),
            *columns,
        )
        .collect()
    ]
    return found[::-1]


def _late(aside: DataFrame) -> list[LatePayment]:
    rows = aside.where(F.col("reason") == LATE).orderBy(F.desc("late_by_ms"))
    time = F.unix_micros("event_time").alias("time")
    return [
        LatePayment(
            event_time=_utc(row["time"]), amount=row["amount"], late_by_ms=row["late_by_ms"]
        )
        for row in rows.limit(MOST_LATE).select(time, "amount", "late_by_ms").collect()
    ]


def _totals(totals: DataFrame) -> list[Row]:
    """Return what is shown of them; of small and negative amounts the whole may not be the most."""
    everything = totals.where(F.col("scope") == "all")
    keys = totals.where(F.col("scope") == "key").orderBy(F.desc("revenue"), "key").limit(MOST_ROWS)
    return [*everything.collect(), *keys.collect()]


def _utc(micros: int) -> datetime:
    """Return a time that Spark counts; its own conversion gives the machine's time zone."""
    return datetime.fromtimestamp(micros // 1_000_000, UTC).replace(microsecond=micros % 1_000_000)


def _window_rows(windows: Sequence[WindowRevenue]) -> Table:
    newest = windows[::-1][:MOST_ROWS]
    length = f" of {in_words(newest[0].end - newest[0].start)}" if newest else ""
    return Table(
        heading=f"Newest windows{length}",
        columns=("start (UTC)", "end (UTC)", ">revenue ($)", "state"),
        rows=[
            (
                f"{each.start:%Y-%m-%d %H:%M:%S}",
                f"{each.end:%Y-%m-%d %H:%M:%S}",
                f"{each.revenue:,.2f}",
                "open, so far" if each.is_open else "closed",
            )
            for each in newest
        ],
        empty="No payment has been counted yet.",
    )


def _late_rows(late: Sequence[LatePayment]) -> Table:
    return Table(
        heading="Latest of the late",
        columns=("made at (UTC)", ">amount ($)", ">behind the watermark (s)"),
        rows=[
            (
                f"{each.event_time:%Y-%m-%d %H:%M:%S}",
                f"{each.amount:,.2f}",
                f"{each.late_by_ms / 1000:,.1f}",
            )
            for each in late[:MOST_ROWS]
        ],
        empty="Every payment came before its watermark.",
    )


def _keys(totals: Sequence[Any]) -> Table:
    keys = [row for row in totals if row["scope"] == "key"]
    return Table(
        heading="Keys that paid most",
        columns=("key", ">revenue ($)", ">payments"),
        rows=[
            (
                "(no key)" if row["key"] is None else row["key"],
                f"{row['revenue']:,.2f}",
                f"{row['payments']:,}",
            )
            for row in keys
        ],
        empty="No key has paid yet.",
    )
