"""Payments that look wrong: too large a one, or too many of one customer in a short time.

`large`: the amount is at least `large_amount`. Late payments are looked at, too.
`rapid`: with this payment there are `rapid_count` different ones of its key in some span of
`rapid_within` that holds it. Only payments in time are looked at (late.py), whatever order
they came in: one that comes out of order may be the one that makes it too many.

A payment is judged when it comes, by those before it in its partition, so an alert depends on the
log alone, not on batches; a key has to have one partition. A repeated event is no payment and
raises no alarm. `alert_id` is the same whenever a payment is judged again.
"""

from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from spark.tables import late
from spark.tables.late import Patience

LARGE: Final = "large"
RAPID: Final = "rapid"

ALERTS: Final = (
    "alert_id string, rule string, topic string, partition int, offset long, key string,"
    " event_id string, order_id long, event_time timestamp, amount decimal(18,2), payments int"
)
RECENT: Final = (
    "topic string, partition int, offset long, key string, event_id string, event_time timestamp"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What is suspicious.

    Attributes:
        patience: how long payments are waited for, and known again.
        large_amount: in the currency of the events.
        rapid_count: so many payments of a key,
        rapid_within: so close to one another.
    """

    patience: Patience = field(default_factory=Patience)
    large_amount: Decimal = Decimal(1000)
    rapid_count: int = 4
    rapid_within: timedelta = timedelta(minutes=1)


def alerts(judged: DataFrame, recent: DataFrame, rules: Rules) -> DataFrame:
    """Return the alerts of a batch, of ALERTS.

    Args:
        judged: of late.JUDGED; duplicates have to be told there.
        recent: what `remembered` gave for the batch before.
        rules: those that the run began with.
    """
    large = late.paid(judged).where(F.col("amount") >= F.lit(rules.large_amount))
    counted = late.in_time(judged)
    crowd = _with_neighbours(counted, recent, rules.rapid_within)
    busiest = F.array_max(F.transform("ends", lambda end: _in_span(end, rules.rapid_within)))
    rapid = crowd.withColumn("payments", busiest).where(F.col("payments") >= rules.rapid_count)
    none = F.lit(None).cast("int").alias("payments")
    return _alerts(large.withColumn("payments", none), LARGE).unionByName(_alerts(rapid, RAPID))


def remembered(
    judged: DataFrame, recent: DataFrame, partitions: DataFrame, rules: Rules
) -> DataFrame:
    """Return the payments that later ones may be close to, of RECENT.

    Args:
        judged: the batch, of late.JUDGED.
        recent: after the batch before.
        partitions: of late.PARTITIONS, after the batch.
        rules: those that the run began with.
    """
    horizon = F.col("latest") - F.lit(rules.patience.delay + rules.rapid_within)
    return (
        recent.unionByName(_recent(late.in_time(judged)))
        .join(F.broadcast(partitions), ["topic", "partition"])
        .where(F.col("event_time") > horizon)
        .select("topic", "partition", "offset", "key", "event_id", "event_time")
    )


def records(alerts_of_batch: DataFrame) -> DataFrame:
    """Return alerts as records of a topic: the customer's key, and JSON."""
    value = F.to_json(F.struct(*alerts_of_batch.columns)).cast("binary")
    return alerts_of_batch.select(F.col("key").cast("binary").alias("key"), value.alias("value"))


def _with_neighbours(payments: DataFrame, recent: DataFrame, within: timedelta) -> DataFrame:
    """Add `times` of the payments that came before or are it, and `ends` of spans that hold it."""
    place = ("topic", "partition", "key")
    known = recent.unionByName(_recent(payments)).select(
        *(F.col(name).alias(f"their_{name}") for name in (*place, "offset", "event_time"))
    )
    same = F.lit(True)
    for name in place:
        same &= F.col(name).eqNullSafe(F.col(f"their_{name}"))
    near = (
        same
        & (F.col("their_offset") <= F.col("offset"))
        & (F.col("their_event_time") > F.col("event_time") - F.lit(within))
        & (F.col("their_event_time") < F.col("event_time") + F.lit(within))
    )
    own = ("offset", "event_id", "order_id", "event_time", "amount")
    times = F.collect_list("their_event_time").alias("times")
    crowd = payments.join(known, near).groupBy(*place, *own).agg(times)
    from_itself = F.filter("times", lambda time: time >= F.col("event_time"))
    return crowd.withColumn("ends", from_itself)


def _in_span(end: Column, within: timedelta) -> Column:
    in_it = F.filter("times", lambda time: (time <= end) & (time > end - F.lit(within)))
    return F.size(in_it)


def _recent(payments: DataFrame) -> DataFrame:
    return payments.select("topic", "partition", "offset", "key", "event_id", "event_time")


def _alerts(payments: DataFrame, rule: str) -> DataFrame:
    return payments.select(
        F.concat(F.lit(f"{rule}:"), "event_id").alias("alert_id"),
        F.lit(rule).alias("rule"),
        *("topic", "partition", "offset", "key", "event_id", "order_id", "event_time", "amount"),
        "payments",
    )
