"""ShopFlow's records as events."""

from datetime import UTC, datetime
from decimal import Decimal

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
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
        b'{"event_id":"e-5","event_type":"paid"}{"event_id":"e-6","event_type":"paid"}',
        b'{"event_id":"e-7","event_type":"paid"} garbage',
        b' {"event_id":"e-8","order_id":8,"event_type":"paid"}\n',
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
        ("t", 0, 5, "k", *NULLS),
        ("t", 0, 6, "k", *NULLS),
        ("t", 0, 7, "k", "e-8", 8, "paid", None, None),
    ]
    assertDataFrameEqual(events, session.createDataFrame(expected, orders.SCHEMA))


def test_only_times_of_payments_are_times(session: SparkSession) -> None:
    # Given seconds since 1970, and what else Spark makes times of: far years, and other units, of
    # which some overflow, one to a time like the first
    times = [
        b"1782295201",
        b'"0999-12-31T23:59:59Z"',
        b'"1000-01-01T00:00:00Z"',
        b'"8999-12-31T23:59:59.999999Z"',
        b'"9000-01-01T00:00:00Z"',
        b"1719223200000",
        b"9223372036854",
        b"9223372036856",
        b"%d" % (2**64 // 10**6 + 1782295201),
        b'"56450-01-01T00:00:00Z"',
        b"null",
    ]
    values = [b'{"event_id":"e","event_type":"paid","ts":%s,"amount":1}' % one for one in times]
    rows = [("t", 0, offset, b"k", value) for offset, value in enumerate(values)]

    # When they are decoded, then events of no time are told apart, and take no window with them
    events = orders.decode(session.createDataFrame(rows, RECORDS)).orderBy("offset")
    told = [row.s for row in events.select(F.unix_seconds("event_time").alias("s")).collect()]
    first = [1782295201, None, orders.FIRST_S, orders.LAST_S]
    assert told == first + [None] * (len(times) - len(first))


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
