"""A log folded in batches by the table functions, as a job folds it, without files."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

from pyspark.sql import DataFrame, SparkSession

from spark.tables import orders, revenue
from spark.tables.revenue import CARRIED_SCHEMAS, Carried, Rules
from tests.spark.shopflow import Event, records


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """All that came out, over all batches.

    Attributes:
        carried: after the last one.
    """

    running: DataFrame
    closed_windows: DataFrame
    aside: DataFrame
    carried: Carried


def fold(session: SparkSession, batches: Sequence[Sequence[Event]], rules: Rules) -> Folded:
    carried = nothing_carried(session)
    outcomes = []
    for batch in batches:
        events = orders.decode(records(session, batch))
        judged = revenue.judged(events, carried, rules).localCheckpoint()
        outcome = revenue.step(judged, carried, rules)
        carried = kept(outcome.carried)
        outcomes.append((outcome.running, outcome.closed_windows, outcome.aside))
    running, closed, aside = (_together(list(parts)) for parts in zip(*outcomes, strict=True))
    return Folded(running=running, closed_windows=closed, aside=aside, carried=carried)


def nothing_carried(session: SparkSession) -> Carried:
    """Return what is there before the first event."""
    return Carried(
        **{name: session.createDataFrame([], schema) for name, schema in CARRIED_SCHEMAS.items()}
    )


def kept(carried: Carried) -> Carried:
    """Cut the plan that leads to what is carried, as writing and reading it does."""
    tables = {field.name: getattr(carried, field.name) for field in fields(carried)}
    return Carried(**{name: table.localCheckpoint() for name, table in tables.items()})


def _together(parts: list[DataFrame]) -> DataFrame:
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.unionByName(part)
    return whole
