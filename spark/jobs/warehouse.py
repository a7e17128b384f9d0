"""Load topics into a table: `python -m spark.jobs.warehouse --help`.

Every record is once in the table or once among its dead letters, whatever dies and whenever: see
spark.sinks.lake_batches (Delta, Iceberg) and spark.sinks.parquet_tables. Rows keep
their place: max(_kafka_offset) of a _kafka_partition tells where the table is.

A run goes on from its checkpoint. When `replay` swaps the table, a run with --follow goes on from
the checkpoint of the new generation.
"""

import sys
from typing import Final

from spark.jobs.checked_query import CheckedQuery
from spark.jobs.loading import Loading
from spark.jobs.options import JobFailed, PipelineOptions, pipeline, run
from spark.jobs.queries import Counted, Goal, measured
from spark.jobs.warehouse_options import (
    ChangeName,
    Format,
    PartitionBy,
    RegistryUrl,
    Schema,
    Unknown,
    make_loading,
    open_session,
)
from spark.sinks.lake_batches import Superseded
from spark.sinks.warehouse import ParquetWarehouse, TableFormat, Warehouse

POLL_S: Final = 1


@pipeline
def warehouse(
    options: PipelineOptions,
    table_format: Format = TableFormat.parquet,
    schema: Schema = None,
    registry: RegistryUrl = None,
    unknown_fields: Unknown = None,
    logic: ChangeName = None,
    partition_by: PartitionBy = None,
) -> None:
    """Load topics into a table of Parquet, Iceberg or Delta, each record once.

    A record that does not fit the table goes to its dead letters, with the reason.
    """
    session = open_session("warehouse", options, table_format)
    loading = make_loading(
        session,
        options,
        table_format=table_format,
        schema=schema,
        registry=registry,
        unknown_fields=unknown_fields,
        logic=logic,
        partition_by=partition_by,
    )
    with measured(session, options):
        loaded = load(loading)
    sys.stdout.write(f"{loaded} records read into generation {loading.warehouse.generation()}\n")


def load(loading: Loading) -> int:
    """Load what there is, or for ever with --follow; return how many records were read.

    Raises:
        JobFailed: a topic was made again.
        StreamingQueryException: the query failed; a run after this one goes on where it was.
    """
    count = 0
    goal = Goal.now(loading.options)
    while True:
        generation = _prepared(loading)
        running = loading.start(generation, live_generation=generation)
        counted = Counted()
        swapped = _wait(running, loading.warehouse, generation, counted)
        count += counted.records
        if not swapped and goal.is_reached(counted):
            return count


def _prepared(loading: Loading) -> int:
    """Return the generation of the table, prepared; begin again if it is swapped meanwhile."""
    while True:
        generation = loading.warehouse.generation() or 1
        try:
            loading.prepare(generation)
        except JobFailed:
            if loading.warehouse.generation() in {0, generation}:
                raise
        else:
            return generation


def _wait(running: CheckedQuery, warehouse: Warehouse, generation: int, counted: Counted) -> bool:
    """Wait for the end of a query; return whether it ended because the table was swapped."""
    try:
        while not running.wait(POLL_S):
            counted.note(running.query)
            if isinstance(warehouse, ParquetWarehouse) and warehouse.generation() != generation:
                running.query.stop()
                return True
    except Superseded:
        return True
    finally:
        counted.note(running.query)
    return False


if __name__ == "__main__":
    run(warehouse)
