"""ShopFlow's records as events."""

from datetime import UTC, datetime
from decimal import Decimal

from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from spark.tables import orders
from tests.spark.shopflow import RECORDS

NULLS = (None, None, None, None, None)


def test_records_become_events_and_what_is_none_keeps_its_row(session: SparkSession) -> None:
    # Given the seed's own event, one with an amount, and records that are no such events
    values = [
        b'{"event_id":"e-1","order_id":1001,"event_type":"placed","ts":"2026-06-24T10:00:01Z"}',
        (
            b'{"event_id":"e-2","order_id":1002,"event_type":"paid",'
            b'"ts":"2026-06-24T12:00:01.25+02:00","amount":10.5,"card":"x"}'
        ),
        b"not JSON",
        b'{"event_id":"e-3","ts":"yesterday","amount":"much"}',
        None,
    ]
    rows = [("t", 0, offset, b"k", value) for offset, value in enumerate(values)]

    # When they are decoded
    events = orders.decode(session.createDataFrame(rows, RECORDS))

    # Then each has a row, with what could be read
    first = datetime(2026, 6, 24, 10, 0, 1, tzinfo=UTC)
    second = datetime(2026, 6, 24, 10, 0, 1, 250_000, tzinfo=UTC)
    expected = [
        ("t", 0, 0, "k", "e-1", 1001, "placed", first, None),
        ("t", 0, 1, "k", "e-2", 1002, "paid", second, Decimal("10.50")),
        ("t", 0, 2, "k", *NULLS),
        ("t", 0, 3, "k", "e-3", None, None, None, None),
        ("t", 0, 4, "k", *NULLS),
    ]
    assertDataFrameEqual(events, session.createDataFrame(expected, orders.SCHEMA))


def test_amounts_are_looked_up_by_order(session: SparkSession) -> None:
    # Given payments with an amount of their own, of a known order, and of an unknown one
    time = datetime(2026, 6, 24, tzinfo=UTC)
    rows = [
        ("t", 0, 0, "k", "e-0", 1, "paid", time, Decimal(3)),
        ("t", 0, 1, "k", "e-1", 1, "paid", time, None),
        ("t", 0, 2, "k", "e-2", 2, "paid", time, None),
        ("t", 0, 3, "k", "e-3", None, "paid", time, None),
    ]
    prices = session.createDataFrame([(1, Decimal(10)), (3, Decimal(30))], orders.PRICES)

    # When prices are looked up
    events = orders.priced(session.createDataFrame(rows, orders.SCHEMA), prices)

    # Then what an event says itself stays, and no event is lost
    amounts = {row.offset: row.amount for row in events.collect()}
    assert amounts == {0: Decimal(3), 1: Decimal(10), 2: None, 3: None}
