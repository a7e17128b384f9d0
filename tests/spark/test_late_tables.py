"""Lateness at its edges: at the watermark, where ids are forgotten, in a new partition."""

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from spark.tables import late, orders
from spark.tables.late import Patience
from tests.spark.shopflow import START, Event, records

PATIENCE: Final = Patience(delay=timedelta(minutes=5), remember=timedelta(minutes=10))


def payment(offset: int, minutes: float, *, event_id: str = "", partition: int = 0) -> Event:
    return Event(
        partition=partition,
        offset=offset,
        key="k",
        event_id=event_id or f"e-{partition}-{offset}",
        event_time=START + timedelta(minutes=minutes),
        amount=Decimal(1),
    )


def verdicts(session: SparkSession, batches: list[list[Event]]) -> list[tuple[int, int, str]]:
    partitions = session.createDataFrame([], late.PARTITIONS)
    seen = session.createDataFrame([], late.SEEN)
    found = []
    for batch in batches:
        events = orders.decode(records(session, batch))
        judged = late.judge(events, partitions, seen, PATIENCE).localCheckpoint()
        found += [
            (row["partition"], row["offset"], row["verdict"])
            for row in judged.select("partition", "offset", "verdict").collect()
        ]
        partitions = late.advance(judged, partitions, PATIENCE).localCheckpoint()
        seen = late.remembered(judged, seen, partitions, PATIENCE).localCheckpoint()
    return sorted(found)


def test_an_event_at_the_watermark_is_in_time_and_one_before_it_is_late(
    session: SparkSession,
) -> None:
    # Given a payment at minute 20, so a watermark at 15; the next ones at it and just before it
    just_before = 15 - 1 / 60_000_000
    log = [payment(0, 20), payment(1, 15), payment(2, just_before), payment(3, 14)]

    # When they are judged, a record of its own raising no bar for itself
    events = orders.decode(records(session, log))
    nothing = session.createDataFrame([], late.PARTITIONS), session.createDataFrame([], late.SEEN)
    judged = late.judge(events, *nothing, PATIENCE)

    # Then the edge belongs to what is in time, and late ones say by how much, rounded up
    expected = [(2, "late", 1), (3, "late", 60_000)]
    aside = late.aside(judged).select("offset", "reason", "late_by_ms")
    schema = "offset long, reason string, late_by_ms long"
    assertDataFrameEqual(aside, session.createDataFrame(expected, schema))


def test_ids_are_forgotten_at_the_same_event_wherever_a_batch_ends(session: SparkSession) -> None:
    # Given an id at minute 0, again while it is remembered, and again when time is at 15 and a bit
    log = [
        payment(0, 0, event_id="twice"),
        payment(1, 15),
        payment(2, 0, event_id="twice"),  # the watermark is at 10: minute 0 is just remembered
        payment(3, 15.1),
        payment(4, 0, event_id="twice"),
    ]

    # When the log is judged at once, and in batches
    whole = verdicts(session, [log])
    cut = verdicts(session, [log[:2], log[2:4], log[4:]])

    # Then the first copy is a duplicate, the second is taken for a late payment, both times
    assert [verdict for *_, verdict in whole] == [
        "counted",
        "counted",
        "duplicate",
        "counted",
        "late",
    ]
    assert cut == whole


def test_a_partition_that_begins_when_others_have_gone_on_starts_at_their_watermark(
    session: SparkSession,
) -> None:
    # Given two partitions, whose low watermark is at minute 55
    before = [payment(0, 60), payment(0, 90, partition=1)]

    # When a third one begins with old events
    later = [payment(0, 54, partition=2), payment(1, 56, partition=2)]
    found = verdicts(session, [before, later])

    # Then what lies in windows that may be closed is late there
    assert found[-2:] == [(2, 0, "late"), (2, 1, "counted")]


def test_the_low_watermark_is_that_of_the_partition_furthest_behind(session: SparkSession) -> None:
    # Given two partitions half an hour apart
    log = [payment(0, 60), payment(1, 30), payment(0, 90, partition=1)]
    nothing = session.createDataFrame([], late.PARTITIONS)
    seen = session.createDataFrame([], late.SEEN)
    judged = late.judge(orders.decode(records(session, log)), nothing, seen, PATIENCE)

    # When time has moved
    partitions = late.advance(judged, nothing, PATIENCE)

    # Then it is minute 60 less the delay, whatever came out of order
    row = late.low_watermark(partitions, PATIENCE).selectExpr("unix_micros(low)").first()
    assert row is not None
    assert row[0] == _micros(START + timedelta(minutes=55))


def _micros(time: datetime) -> int:
    return int(time.timestamp()) * 1_000_000
