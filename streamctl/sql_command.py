"""streamctl sql: Spark SQL over topics, in a process of its own."""

from enum import StrEnum
from typing import Annotated, Final

import typer

from streamctl.errors import UsageError
from streamctl.offline_commands import DataOption, PostgresOption, StoreOption
from streamctl.options import JsonFlag, explained
from streamctl.spark_jobs import become_job

JOB: Final = "spark.jobs.sql"
POSTGRES_VARIABLE: Final = "STREAMHOUSE_POSTGRES"
STORE_VARIABLE: Final = "STREAMHOUSE_STORE"
MAX_ROWS: Final = 2**31 - 2


class SqlFormat(StrEnum):
    """How results are given."""

    TABLE = "table"
    JSON = "json"
    PARQUET = "parquet"


Query = Annotated[str, typer.Argument(metavar="QUERY", help="SELECT ... FROM topic ...")]
Form = Annotated[SqlFormat, typer.Option("--format", help="How results are given.")]
Output = Annotated[
    str | None,
    typer.Option("--output", metavar="DIR", help="Where Parquet goes: a directory or URL."),
]
Limit = Annotated[
    int | None, typer.Option("--limit", min=1, max=MAX_ROWS, metavar="N", help="Rows at most.")
]
AsOf = Annotated[
    str | None,
    typer.Option("--as-of", metavar="ID|TIME", help="A snapshot, or a time, to read topics as of."),
]
Schemas = Annotated[
    list[str] | None,
    typer.Option(
        "--schema",
        metavar="TOPIC=COLUMNS",
        help="Types of fields, such as 'orders=id bigint, amount double'. Repeatable.",
    ),
]
Registry = Annotated[
    str | None,
    typer.Option("--registry", metavar="URL", help="Schema registry that values are of."),
]
Master = Annotated[
    str | None,
    typer.Option("--master", metavar="URL", help="Spark's master. Default: two threads here."),
]


@explained
def sql(
    query: Query,
    *,
    form: Form = SqlFormat.TABLE,
    as_json: JsonFlag = False,
    output: Output = None,
    limit: Limit = None,
    as_of: AsOf = None,
    schema: Schemas = None,
    registry: Registry = None,
    postgres: PostgresOption = None,
    store: StoreOption = None,
    data: DataOption = None,
    master: Master = None,
) -> None:
    r"""Ask topics with SQL, on Spark, straight from the object store: brokers have no part in it.

    A topic is a table. Fields of its JSON objects are columns (as its last records have them), or
    those of its schemas with --registry; beside them are _key, _value, _headers, _partition,
    _offset and _timestamp. A value that has no such field, or is no JSON, has null there. Names
    with other letters than a-z, 0-9 and _ stand in backticks.

    All topics of a query are read up to the same moment: now, or that of a snapshot. Only committed
    records are. With a time, --as-of ends each partition before its first record with a later
    timestamp, which may cut a transaction in two; what comes late, retention and compaction change
    that without a word. Conditions on _partition, _offset and _timestamp narrow what is read.

    Needs Java 17, and Spark: make spark (for an image: uv sync --extra spark). Times are in UTC. A
    table shows 1,000 rows unless --limit says otherwise.

    Examples:
      streamctl sql 'SELECT event_type, count(*) FROM order_events GROUP BY 1' \
          --data ./streamhouse-data
      streamctl sql 'SELECT * FROM `user-events` WHERE _partition = 3 AND _offset >= 1000' \
          --limit 20
      streamctl sql "SELECT sum(amount) FROM orders WHERE _timestamp >= '2026-06-24'" \
          --as-of before-backfill --format json
      streamctl sql 'SELECT * FROM orders' --registry http://localhost:8081 \
          --format parquet --output /data/orders
    """
    form = SqlFormat.JSON if as_json else form
    if (form is SqlFormat.PARQUET) != (output is not None):
        raise UsageError(
            "--format parquet and --output DIR go together", fix="give both, or neither of them"
        )
    arguments = ["--format", form.value]
    told = {
        "--output": output,
        "--limit": limit,
        "--as-of": as_of,
        "--registry": registry,
        "--data": data,
        "--master": master,
    }
    for option, value in told.items():
        if value is not None:
            arguments += [option, str(value)]
    for word in schema or ():
        arguments += ["--schema", word]
    arguments += ["--", query]  # which may begin with a comment
    environment = _environment(postgres, store, is_told=data is None)
    become_job(JOB, arguments, environment, command="streamctl sql")


def _environment(postgres: str | None, store: str | None, *, is_told: bool) -> dict[str, str]:
    """Return what the job's has more; a DSN may have a password, which ps would show."""
    told = {POSTGRES_VARIABLE: postgres, STORE_VARIABLE: store} if is_told else {}
    return {name: value for name, value in told.items() if value}
