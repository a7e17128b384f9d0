"""Revenue as payments come in: a running total, and what a run carries from batch to batch.

A log is folded: `step` takes what is carried and the next events, and returns what is carried then
and what became final. How the log is cut into batches makes no difference to what comes out in the
end: one batch with everything (a replay) gives the same as many (a live run). All is carried in
tables, none of it in a process, so a batch can be made again from what the one before left.

The running total goes by partition in the order of offsets, as its consumer sees it: for amounts
10, 25, 5, 60 it is 10, 35, 40, 100. Late payments are money and are in it; duplicates are not. The
total over all partitions is the sum of theirs (`totals`). A key's running total is in the order of
its offsets as well, since a key has one partition; where it has several, those come one after the
other within a batch.
"""

from dataclasses import dataclass, field
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from spark.tables import late, windows
from spark.tables.late import Patience
from spark.tables.windows import Lengths

RUNNING: Final = (
    "topic string, partition int, offset long, key string, event_id string, order_id long,"
    " event_time timestamp, amount decimal(18,2), revenue decimal(28,2),"
    " key_revenue decimal(28,2)"
)
KEYS: Final = "key string, revenue decimal(28,2), payments long"
TOTALS: Final = "scope string, key string, revenue decimal(28,2), payments long"

CARRIED_SCHEMAS: Final = {
    "partitions": late.PARTITIONS,
    "seen": late.SEEN,
    "keys": KEYS,
    "open_windows": windows.SCHEMA,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a run decides by; a run that resumes needs those that it began with."""

    patience: Patience = field(default_factory=Patience)
    lengths: Lengths = field(default_factory=Lengths)


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """What one batch leaves for the next; its size follows keys and open windows, not events.

    Attributes:
        partitions: of late.PARTITIONS.
        seen: of late.SEEN.
        keys: of KEYS, what each key has paid.
        open_windows: of windows.SCHEMA, values so far.
    """

    partitions: DataFrame
    seen: DataFrame
    keys: DataFrame
    open_windows: DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What a batch has made of its events.

    Attributes:
        running: of RUNNING, a row for each payment.
        closed_windows: of windows.SCHEMA; each window comes out once.
        aside: of late.ASIDE.
        carried: for the next batch.
    """

    running: DataFrame
    closed_windows: DataFrame
    aside: DataFrame
    carried: Carried


def judged(events: DataFrame, carried: Carried, rules: Rules) -> DataFrame:
    """Return the events of a batch with their verdict, of late.JUDGED; a step begins with them."""
    return late.judge(events, carried.partitions, carried.seen, rules.patience)


def step(verdicts: DataFrame, carried: Carried, rules: Rules) -> Step:
    """Fold a batch.

    Args:
        verdicts: what `judged` gave for the batch; read several times, so keep it.
        carried: by the batch before.
        rules: that the run began with.
    """
    partitions = late.advance(verdicts, carried.partitions, rules.patience)
    low = late.low_watermark(partitions, rules.patience)
    counted = windows.all_windows(late.in_time(verdicts), rules.lengths)
    known = windows.merged(carried.open_windows.unionByName(counted))
    return Step(
        running=running(late.paid(verdicts), carried),
        closed_windows=windows.closed(known, low),
        aside=late.aside(verdicts),
        carried=Carried(
            partitions=partitions,
            seen=late.remembered(verdicts, carried.seen, partitions, rules.patience),
            keys=_keys(late.paid(verdicts), carried.keys),
            open_windows=windows.still_open(known, low),
        ),
    )


def running(payments: DataFrame, carried: Carried) -> DataFrame:
    """Return the payments of a batch with the totals after each, of RUNNING."""
    places = ("topic", "partition")
    so_far = (Window.unboundedPreceding, Window.currentRow)
    in_partition = Window.partitionBy(*places).orderBy("offset").rowsBetween(*so_far)
    of_key = Window.partitionBy("key").orderBy(*places, "offset").rowsBetween(*so_far)
    before = carried.partitions.select(*places, F.col("revenue").alias("before"))
    key_before = carried.keys.select(
        F.col("key").alias("known_key"), F.col("revenue").alias("key_before")
    )
    revenue = F.coalesce("before", F.lit(0)) + F.sum("amount").over(in_partition)
    key_revenue = F.coalesce("key_before", F.lit(0)) + F.sum("amount").over(of_key)
    return (
        payments.join(F.broadcast(before), [*places], "left")
        .join(key_before, F.col("key").eqNullSafe(F.col("known_key")), "left")
        .select(
            *(*places, "offset", "key", "event_id", "order_id", "event_time", "amount"),
            revenue.cast("decimal(28,2)").alias("revenue"),
            key_revenue.cast("decimal(28,2)").alias("key_revenue"),
        )
    )


def totals(carried: Carried) -> DataFrame:
    """Return what was paid over all, by partition and by key, of TOTALS.

    `scope` is all, partition or key; `key` names the partition as topic-N, or the key.
    """
    name = F.concat_ws("-", "topic", "partition")
    sums = ("revenue", "payments")
    everything = carried.partitions.agg(
        F.coalesce(F.sum("revenue"), F.lit(0)).cast("decimal(28,2)").alias("revenue"),
        F.coalesce(F.sum("payments"), F.lit(0)).alias("payments"),
    )
    no_key = F.lit(None).cast("string").alias("key")
    parts = [
        everything.select(F.lit("all").alias("scope"), no_key, *sums),
        carried.partitions.select(F.lit("partition").alias("scope"), name.alias("key"), *sums),
        carried.keys.select(F.lit("key").alias("scope"), "key", *sums),
    ]
    return reduce(DataFrame.unionByName, parts).select("scope", "key", *sums)


def _keys(payments: DataFrame, keys: DataFrame) -> DataFrame:
    paid = payments.select("key", F.col("amount").alias("revenue"), F.lit(1).alias("payments"))
    return (
        keys.unionByName(paid)
        .groupBy("key")
        .agg(
            F.sum("revenue").cast("decimal(28,2)").alias("revenue"),
            F.sum("payments").alias("payments"),
        )
        .select("key", "revenue", "payments")
    )
