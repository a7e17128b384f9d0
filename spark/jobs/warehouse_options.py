"""Options that `warehouse`, `replay` and `deadletter` share, and the session they run in."""

from typing import Annotated, Final

import typer
from pyspark.sql import SparkSession

from spark.java_directory import absolute
from spark.jobs.java_words import hush_streams
from spark.jobs.loading import Loading
from spark.jobs.logic import Logic, UnknownFields, parse_change, parse_columns
from spark.jobs.options import PipelineOptions, Source, WrongUsage
from spark.log_location import LogLocation
from spark.session import Package, build_session
from spark.sinks.warehouse import TableFormat, open_warehouse
from spark.sources.registry import Registry

PANEL: Final = "Table"
_PACKAGES: Final = {
    TableFormat.parquet: (),
    TableFormat.iceberg: (Package.ICEBERG,),
    TableFormat.delta: (Package.DELTA,),
}
_DELTA_SMALL: Final = {"spark.databricks.delta.snapshotPartitions": "2"}  # 50 tasks for each commit

Format = Annotated[
    TableFormat,
    typer.Option("--format", rich_help_panel=PANEL, help="What the table at --output is made of."),
]
Schema = Annotated[
    str | None,
    typer.Option(
        "--schema",
        metavar="DDL",
        rich_help_panel=PANEL,
        help="Columns, such as 'id bigint, name string'. Default: those of the table, or"
        " found out from a sample.",
    ),
]
RegistryUrl = Annotated[
    str | None,
    typer.Option(
        "--registry",
        metavar="URL",
        rich_help_panel=PANEL,
        help="Schema registry whose Avro or JSON serializers wrote the values.",
    ),
]
Unknown = Annotated[
    UnknownFields | None,
    typer.Option(
        "--unknown-fields",
        rich_help_panel=PANEL,
        help="A field without a column: add one, reject the record (dead letter), or ignore it."
        " Default: add; reject for Parquet.",
    ),
]
ChangeName = Annotated[
    str | None,
    typer.Option(
        "--logic",
        metavar="MODULE:FUNCTION",
        rich_help_panel=PANEL,
        help="A function from rows to rows (DataFrame to DataFrame) that keeps every row.",
    ),
]
PartitionBy = Annotated[
    list[str] | None,
    typer.Option(
        "--partition-by",
        metavar="COLUMN",
        rich_help_panel=PANEL,
        help="Partitions of a new table. Repeatable. Default: _kafka_date, of the timestamp.",
    ),
]


def open_session(name: str, options: PipelineOptions, table_format: TableFormat) -> SparkSession:
    """Return Spark with what the format and the source need."""
    direct = options.source is Source.direct
    location: LogLocation | None = options.location() if direct else None
    session = build_session(
        name,
        master=options.master,
        packages=(
            *_PACKAGES[table_format],
            *(() if direct else (Package.KAFKA,)),
            Package.AVRO,
        ),
        warehouse=absolute(options.output.rstrip("/").rpartition("/")[0] or "."),
        location=location,
        settings=_DELTA_SMALL if options.master.startswith("local") else None,
    )
    session.sparkContext.setLogLevel("ERROR")
    hush_streams(session)
    return session


def make_loading(
    session: SparkSession,
    options: PipelineOptions,
    *,
    table_format: TableFormat,
    schema: str | None = None,
    registry: str | None = None,
    unknown_fields: UnknownFields | None = None,
    logic: str | None = None,
    partition_by: list[str] | None = None,
    name: str = "warehouse",
) -> Loading:
    """Return what the options say; queries go by `name` in metrics.

    Raises:
        WrongUsage: they do not go together.
    """
    files = table_format is TableFormat.parquet
    if files and unknown_fields is UnknownFields.add:
        raise WrongUsage(
            "--unknown-fields add: Parquet files get their columns when a run starts",
            fix="take reject: what is new goes to the dead letters; then --schema and deadletter",
        )
    unknown = unknown_fields or (UnknownFields.reject if files else UnknownFields.add)
    return Loading(
        options=options,
        warehouse=open_warehouse(session, table_format, options.output),
        logic=Logic(
            columns=parse_columns(schema) if schema else None,
            unknown=unknown,
            registry=Registry(url=registry) if registry else None,
            change=parse_change(logic) if logic else None,
        ),
        partition_by=("_kafka_date",) if partition_by is None else tuple(partition_by),
        name=name,
    )
