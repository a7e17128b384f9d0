"""Revenue by windows of event time: tumbling, sliding and sessions.

The first three functions aggregate payments. They are plain aggregations, so they run on a bounded
table and, after `withWatermark`, on a stream in append mode. Their sums can be added up (`merged`),
so the windows of a log are the merged windows of its parts, however it is cut.

A window is closed when it ends before the low watermark of the log: no event in time can reach it
any more (late.py). At the watermark itself it is still open, because a session that ends at the
very time of an event is continued by it.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

TUMBLING: Final = "tumbling"
SLIDING: Final = "sliding"
SESSION: Final = "session"

SCHEMA: Final = (
    "kind string, key string, window_start timestamp, window_end timestamp,"
    " revenue decimal(28,2), payments long"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Of the windows that a job keeps.

    Attributes:
        tumbling: each payment is in one of them.
        sliding: each payment is in sliding / slide of them.
        slide: from the start of a sliding window to that of the next.
        gap: a session of a key ends when nothing was paid for so long.
    """

    tumbling: timedelta = timedelta(minutes=10)
    sliding: timedelta = timedelta(hours=1)
    slide: timedelta = timedelta(minutes=10)
    gap: timedelta = timedelta(minutes=30)


def tumbling(payments: DataFrame, length: timedelta) -> DataFrame:
    """Return what was paid in each window, over all keys; windows start at whole lengths of UTC.

    Args:
        payments: columns event_time and amount.
        length: of each window.
    """
    return _windows(payments, TUMBLING, F.window("event_time", _duration(length)))


def sliding(payments: DataFrame, length: timedelta, slide: timedelta) -> DataFrame:
    """Return what was paid in each window, over all keys; one starts every `slide`."""
    window = F.window("event_time", _duration(length), _duration(slide))
    return _windows(payments, SLIDING, window)


def sessions(payments: DataFrame, gap: timedelta) -> DataFrame:
    """Return what each key paid with no longer pause than `gap`.

    A session ends a gap after its last payment; a payment at that very time continues it.
    """
    grouped = payments.groupBy("key", F.session_window("event_time", _duration(gap)).alias("w"))
    return grouped.agg(*_sums()).select(F.lit(SESSION).alias("kind"), "key", *_columns())


def all_windows(payments: DataFrame, lengths: Lengths) -> DataFrame:
    """Return the windows of all three kinds, of SCHEMA."""
    slid = sliding(payments, lengths.sliding, lengths.slide)
    return (
        tumbling(payments, lengths.tumbling)
        .unionByName(slid)
        .unionByName(sessions(payments, lengths.gap))
    )


def merged(windows: DataFrame) -> DataFrame:
    """Add up windows of several parts of a log, of SCHEMA; sessions that touch become one."""
    sums = [
        F.sum("revenue").cast("decimal(28,2)").alias("revenue"),
        F.sum("payments").alias("payments"),
    ]
    aligned = windows.where(F.col("kind") != SESSION)
    same = aligned.groupBy("kind", "key", "window_start", "window_end").agg(*sums)
    length = F.unix_micros("window_end") - F.unix_micros("window_start")
    whole = F.session_window("window_start", F.concat(length, F.lit(" microseconds"))).alias("w")
    joined = windows.where(F.col("kind") == SESSION).groupBy("kind", "key", whole).agg(*sums)
    return same.unionByName(joined.select("kind", "key", *_columns()))


def closed(windows: DataFrame, low_watermark: DataFrame) -> DataFrame:
    """Return the windows that no event in time can reach any more, of SCHEMA.

    Args:
        windows: of SCHEMA.
        low_watermark: one row, `low timestamp`.
    """
    return _at(windows, low_watermark, F.col("window_end") < F.col("low"))


def still_open(windows: DataFrame, low_watermark: DataFrame) -> DataFrame:
    """Return the windows whose values are not final, of SCHEMA."""
    end = F.col("window_end")
    return _at(windows, low_watermark, F.col("low").isNull() | (end >= F.col("low")))


def _windows(payments: DataFrame, kind: str, window: Column) -> DataFrame:
    grouped = payments.groupBy(window.alias("w")).agg(*_sums())
    key = F.lit(None).cast("string").alias("key")
    return grouped.select(F.lit(kind).alias("kind"), key, *_columns())


def _at(windows: DataFrame, low_watermark: DataFrame, condition: Column) -> DataFrame:
    known = windows.crossJoin(F.broadcast(low_watermark)).where(condition)
    return known.select("kind", "key", "window_start", "window_end", "revenue", "payments")


def _sums() -> list[Column]:
    # a sum of amounts is a decimal(28,2)
    return [F.sum("amount").alias("revenue"), F.count("amount").alias("payments")]


def _columns() -> list[Column]:
    start, end = F.col("w.start").alias("window_start"), F.col("w.end").alias("window_end")
    return [start, end, F.col("revenue"), F.col("payments")]


def _duration(length: timedelta) -> str:
    return f"{length // timedelta(microseconds=1)} microseconds"
