"""Which events come too late, decided by the log alone.

Time, for a partition, is the latest event time among its records so far. Its watermark lies `delay`
before that: an event is late if its time is before the watermark that the records *before it in
its partition* have made. Nothing else enters: not when a job ran, not how it cut the log into
batches, not what other partitions hold. So a replay from offset 0, a live run and a run that was
killed and resumed tell the same events late. (Spark's own watermark moves between batches and drops
rows in silence, so which ones are dropped depends on where batches end, and on how far ahead of
one partition another was read.)

What a run carries from one batch to the next is one row a partition (PARTITIONS), and the ids of
recent payments where duplicates are looked for (SEEN). A resumed run continues with what the
checkpoint holds for the batch before, and so judges as if it had not been killed.

One thing depends on when a run was: a partition that gets its first event when others have long
gone on begins at the low watermark (`low_watermark`), because windows before that are closed. A
replay reads all partitions from the start and has no such case, or another one.

An event with a time in the far future takes the watermark of its partition with it.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from spark.tables.orders import PAID

COUNTED: Final = "counted"
LATE: Final = "late"
DUPLICATE: Final = "duplicate"
UNREADABLE: Final = "unreadable"
OTHER: Final = "other"

PARTITIONS: Final = (
    "topic string, partition int, latest timestamp, revenue decimal(28,2), payments long"
)
SEEN: Final = "topic string, partition int, event_id string, event_time timestamp"
JUDGED: Final = (
    "topic string, partition int, offset long, key string, event_id string, order_id long,"
    " event_time timestamp, amount decimal(18,2), watermark timestamp, verdict string"
)
ASIDE: Final = (
    "topic string, partition int, offset long, key string, event_id string,"
    " event_time timestamp, amount decimal(18,2), reason string, watermark timestamp,"
    " late_by_ms long"
)

_PARTITION: Final = ("topic", "partition")
_EARLIER: Final = (Window.unboundedPreceding, -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long events are waited for, in event time.

    Attributes:
        delay: of the watermark behind the latest event of a partition.
        remember: how far before the watermark ids are remembered, to tell duplicates in a
            partition; None takes every record for a payment of its own. A copy of an event that
            is older than that is taken for a late payment.
    """

    delay: timedelta = timedelta(minutes=10)
    remember: timedelta | None = timedelta(days=1)


def judge(
    events: DataFrame, partitions: DataFrame, seen: DataFrame, patience: Patience
) -> DataFrame:
    """Return all events with their verdict, of JUDGED.

    `counted`: a payment in time. `late`: a payment before the watermark. `duplicate`: a payment
    whose id came before. `unreadable`: no such event, or a payment without id, time or amount.
    `other`: no payment; it moves time as payments do.

    Args:
        events: of orders.SCHEMA: whole offset ranges, next to those of the batches before.
        partitions: what `advance` gave for the batch before.
        seen: what `remembered` gave for it.
        patience: that the run began with.
    """
    before = Window.partitionBy(*_PARTITION).orderBy("offset").rowsBetween(*_EARLIER)
    floor = partitions.select(F.min("latest").alias("floor"))
    carried = partitions.select(*_PARTITION, F.col("latest").alias("carried"))
    started = F.coalesce("carried", "floor")
    latest = F.greatest(started, F.max("event_time").over(before))
    timed = (
        events.join(F.broadcast(carried), [*_PARTITION], "left")
        .crossJoin(F.broadcast(floor))
        .withColumn("watermark", latest - F.lit(patience.delay))
    )
    verdict = (
        F.when(_unreadable(), UNREADABLE)
        .when(F.col("event_type") != PAID, OTHER)
        .when(F.col("duplicate"), DUPLICATE)
        .when(F.col("event_time") < F.col("watermark"), LATE)
        .otherwise(COUNTED)
    )
    return (
        _with_duplicates(timed, seen, patience.remember)
        .withColumn("verdict", verdict)
        .select(
            *(*_PARTITION, "offset", "key", "event_id", "order_id"),
            *("event_time", "amount", "watermark", "verdict"),
        )
    )


def aside(judged: DataFrame) -> DataFrame:
    """Return the payments that are not counted in windows, and what is unreadable, of ASIDE.

    `late_by_ms` says how far before the watermark an event lies, rounded up: by so much longer a
    delay would have had it counted.
    """
    late_by = F.unix_micros("watermark") - F.unix_micros("event_time")
    is_late = F.col("verdict") == LATE
    return judged.where(F.col("verdict").isin(LATE, DUPLICATE, UNREADABLE)).select(
        *(*_PARTITION, "offset", "key", "event_id", "event_time", "amount"),
        F.col("verdict").alias("reason"),
        "watermark",
        F.when(is_late, F.ceil(late_by / 1000)).cast("long").alias("late_by_ms"),
    )


def paid(judged: DataFrame) -> DataFrame:
    """Return the payments that are money: in time and late ones, each once; of JUDGED."""
    return judged.where(F.col("verdict").isin(COUNTED, LATE))


def in_time(judged: DataFrame) -> DataFrame:
    """Return the payments that windows count, of JUDGED."""
    return judged.where(F.col("verdict") == COUNTED)


def advance(judged: DataFrame, partitions: DataFrame, patience: Patience) -> DataFrame:
    """Return PARTITIONS after a batch: time, and the sum of what was paid."""
    counts = F.col("verdict").isin(COUNTED, LATE)
    moved = judged.select(
        *_PARTITION,
        # a partition that was not there before begins at the low watermark
        F.greatest("event_time", F.col("watermark") + F.lit(patience.delay)).alias("latest"),
        F.when(counts, F.col("amount")).alias("revenue"),
        counts.cast("long").alias("payments"),
    )
    return (
        partitions.unionByName(moved)
        .groupBy(*_PARTITION)
        .agg(
            F.max("latest").alias("latest"),
            F.coalesce(F.sum("revenue"), F.lit(0)).cast("decimal(28,2)").alias("revenue"),
            F.sum("payments").alias("payments"),
        )
        .select(*_PARTITION, "latest", "revenue", "payments")
    )


def remembered(
    judged: DataFrame, seen: DataFrame, partitions: DataFrame, patience: Patience
) -> DataFrame:
    """Return SEEN after a batch.

    Args:
        judged: the batch.
        seen: after the batch before.
        partitions: after the batch.
        patience: that the run began with.
    """
    if patience.remember is None:
        return seen
    seen_now = judged.where(F.col("verdict").isin(COUNTED, LATE, DUPLICATE))
    horizon = F.col("latest") - F.lit(patience.delay + patience.remember)
    return (
        seen.unionByName(seen_now.select(*_PARTITION, "event_id", "event_time"))
        .join(F.broadcast(partitions), [*_PARTITION])
        .where(F.col("event_time") >= horizon)
        .groupBy(*_PARTITION, "event_id")
        .agg(F.max("event_time").alias("event_time"))
        .select(*_PARTITION, "event_id", "event_time")
    )


def low_watermark(partitions: DataFrame, patience: Patience) -> DataFrame:
    """Return one row, `low timestamp`: what no event in time lies before, in any partition.

    It is the watermark of the partition that is furthest behind; null before the first event. A
    partition without news holds it: values of open windows are known all the same.
    """
    return partitions.select((F.min("latest") - F.lit(patience.delay)).alias("low"))


def _unreadable() -> Column:
    is_payment = F.col("event_type") == PAID
    no_event = F.col("event_id").isNull() | F.col("event_type").isNull()
    return no_event | F.col("event_time").isNull() | (is_payment & F.col("amount").isNull())


def _with_duplicates(events: DataFrame, seen: DataFrame, remember: timedelta | None) -> DataFrame:
    """Add the column `duplicate`: the id came before, and not too long ago to be remembered.

    "Too long ago" is measured against the watermark of the event itself: forgetting ids at the end
    of a batch (`remembered`) then takes away only what no later event would ask for.
    """
    if remember is None:
        return events.withColumn("duplicate", F.lit(False))
    same = Window.partitionBy(*_PARTITION, "event_id").orderBy("offset").rowsBetween(*_EARLIER)
    is_payment = ~_unreadable() & (F.col("event_type") == PAID)
    earlier = F.max(F.when(is_payment, F.col("event_time"))).over(same)
    carried = seen.select(*_PARTITION, "event_id", F.col("event_time").alias("seen"))
    last_seen = F.greatest(earlier, F.col("seen"))
    # no watermark yet: nothing is too long ago
    recent = F.coalesce(last_seen >= F.col("watermark") - F.lit(remember), F.lit(True))
    return events.join(carried, [*_PARTITION, "event_id"], "left").withColumn(
        "duplicate", last_seen.isNotNull() & recent
    )
