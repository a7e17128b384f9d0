"""Take dead letters through the logic again: `python -m spark.jobs.deadletter --help`.

Those that fit now become rows of the table, all in one commit. A dead letter is settled when the
table has a row of its topic, partition and offset, so a run that died before the commit has done
nothing, and one that died after it has done all: the next one finds them settled. One run at a time
for each table.
"""

import sys
from dataclasses import dataclass
from typing import Annotated

import typer
from pyspark import StorageLevel
from pyspark.sql.types import StructType

from spark.jobs.loading import Loading
from spark.jobs.logic import value_columns
from spark.jobs.options import JobFailed, PipelineOptions, pipeline, run
from spark.jobs.queries import measured
from spark.jobs.warehouse_options import (
    ChangeName,
    Format,
    RegistryUrl,
    Schema,
    Unknown,
    make_loading,
    open_session,
)
from spark.sinks.warehouse import TableFormat
from spark.tables import deadletter as table
from spark.tables.decoded import decode
from spark.tables.drift import additions


@dataclass(frozen=True, slots=True, kw_only=True)
class Redone:
    """What became of dead letters.

    Attributes:
        settled: that are rows now.
        left: that still do not fit, by reason.
    """

    settled: int
    left: dict[str, int]


@pipeline
def deadletter(
    options: PipelineOptions,
    table_format: Format = TableFormat.parquet,
    schema: Schema = None,
    registry: RegistryUrl = None,
    unknown_fields: Unknown = None,
    logic: ChangeName = None,
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", metavar="", help="Tell what would fit; write nothing.")
    ] = False,
) -> None:
    """Take a table's dead letters through the logic again; say how many are left, and why."""
    session = open_session("deadletter", options, table_format)
    loading = make_loading(
        session,
        options,
        table_format=table_format,
        schema=schema,
        registry=registry,
        unknown_fields=unknown_fields,
        logic=logic,
    )
    with measured(session, options):
        redone = redo(loading, dry_run=dry_run)
    verb = "would become rows" if dry_run else "became rows"
    sys.stdout.write(f"{redone.settled} dead letters {verb}, {sum(redone.left.values())} left\n")
    for reason, count in sorted(redone.left.items()):
        sys.stdout.write(f"  {count}  {reason}\n")


def redo(loading: Loading, *, dry_run: bool = False) -> Redone:
    """Make rows of dead letters that fit now.

    Raises:
        JobFailed: there is no table.
    """
    warehouse = loading.warehouse
    generation = warehouse.generation()
    if generation == 0:
        raise JobFailed(f"there is no table at {loading.options.output}", fix="run warehouse first")
    if not dry_run:
        loading.prepare(generation)
    stored = warehouse.columns(generation)
    assert stored is not None, "a table that has a generation has columns"
    columns = value_columns(stored)
    if loading.logic.columns is not None:  # of which a dry run has added none
        columns = StructType([*columns, *additions(columns, loading.logic.columns)])
    letters = warehouse.left(generation).persist(StorageLevel.MEMORY_AND_DISK)
    values = loading.logic.values(letters, columns)
    decoded = decode(letters, values)
    settled = decoded.where("reason is null").count()
    if settled and not dry_run:
        warehouse.create(generation, values.columns)  # what is new in these values
        warehouse.redo(generation, loading.logic.rows(decoded))
    reasons = table.dead_letters(decoded).groupBy("reason").count().collect()
    letters.unpersist()
    return Redone(settled=settled, left={row["reason"]: row["count"] for row in reasons})


if __name__ == "__main__":
    run(deadletter)
