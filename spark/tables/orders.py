"""ShopFlow's order events, decoded from a topic: one JSON object a record, keyed by the customer.

    {"event_id": "e-1", "order_id": 1001, "event_type": "paid", "ts": "2026-06-24T10:00:01Z",
     "amount": 10.00}

Amounts have two decimals and are exact; more are rounded. `amount` may be left out where the
prices of orders are looked up (`priced`). A `ts` that is a number is seconds since 1970, as in
Spark: milliseconds are no time. Of several objects in a value none is an event.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from spark.tables.whole import END, is_whole, listed

BODY: Final = (
    "event_id string, order_id long, event_type string, ts timestamp, amount decimal(18,2)"
)
SCHEMA: Final = (
    "topic string, partition int, offset long, key string, event_id string, order_id long,"
    " event_type string, event_time timestamp, amount decimal(18,2)"
)
PRICES: Final = "order_id long, amount decimal(18,2)"
PAID: Final = "paid"
FIRST_S: Final = -30_610_224_000
LAST_S: Final = 221_845_391_999
"""Seconds since 1970 of the years 1000 to 8999: windows around them are in years of four digits."""


def decode(records: DataFrame) -> DataFrame:
    """Return a row per record; what is not such an event keeps nulls, so counts match.

    Args:
        records: columns topic, partition, offset, key, value of a source of records.
    """
    text = F.col("value").cast("string")
    ends = F.from_json(listed(text), f"array<struct<{END}: string>>")
    body = F.when(is_whole(ends, text), F.from_json(text, BODY))
    return records.withColumn("body", body).select(
        "topic",
        "partition",
        "offset",
        F.col("key").cast("string").alias("key"),
        "body.event_id",
        "body.order_id",
        "body.event_type",
        F.when(_is_time(text), F.col("body.ts")).alias("event_time"),
        "body.amount",
    )


def _is_time(text: Column) -> Column:
    """Return whether `body.ts` is an event's time: Spark makes any whole number into some time."""
    number = F.get_json_object(text, "$.ts").try_cast("double")
    is_one = F.unix_seconds("body.ts").between(FIRST_S, LAST_S)
    return is_one & F.coalesce(number.between(FIRST_S, LAST_S), F.lit(True))


def priced(events: DataFrame, prices: DataFrame) -> DataFrame:
    """Look up the amount of events that have none.

    Args:
        events: of SCHEMA.
        prices: of PRICES, an order once. It has to stay as it is while a job may be resumed, or
            the rows that are made again differ from those before.
    """
    looked_up = prices.select("order_id", F.col("amount").alias("price"))
    amount = F.coalesce("amount", F.col("price").cast("decimal(18,2)"))
    return (
        events.join(F.broadcast(looked_up), "order_id", "left")
        .withColumn("amount", amount)
        .select(
            "topic",
            "partition",
            "offset",
            "key",
            "event_id",
            "order_id",
            "event_type",
            "event_time",
            "amount",
        )
    )
