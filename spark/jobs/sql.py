"""SQL over topics: `python -m spark.jobs.sql "SELECT ... FROM topic ..."`, or `streamctl sql`.

Each topic that the query names is a table (spark/tables/topic_rows.py), read from the object store
without brokers: committed records up to the moment at which the query began, the same moment for
all of its topics, or as of a snapshot or a time. Conditions on _partition, _offset and _timestamp
narrow what is read, wherever in the query they stand.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql.types import StructType

from spark.java_directory import absolute, own_directory
from spark.jobs.java_words import java_words_aside
from spark.jobs.logic import parse_columns
from spark.jobs.option_groups import DEFAULT_MASTER, LOG_OPTIONS, RUN_OPTIONS
from spark.jobs.options import JobFailed, UpkeepOptions, WrongUsage, parse_pairs, run
from spark.jobs.sql_output import MAX_ROWS, Format, write
from spark.jobs.sql_tables import TableOptions, TopicTables
from spark.jobs.task_errors import FAILURES, JAVA_GONE, explain
from spark.log_location import DATA, POSTGRES, STORE
from spark.session import JavaMissing, Package, build_session
from spark.sources.query_plan import NotAQuery
from spark.sources.registry import Registry
from spark.sources.snapshots import parse_time

_SETTINGS: Final = {
    "spark.log.level": "OFF",  # what fails is said below, once
    "spark.sql.execution.arrow.maxRecordsPerBatch": "500",  # so many are text at once, of any size
}
_PLANNING_FAILED: Final = "PYTHON_DATA_SOURCE_ERROR"
_QUOTING: Final = "names with other letters than a-z, 0-9 and _ stand in `backticks`"
_POSTGRES: Final = "see that Postgres answers; that of --data runs as long as its broker does"
_FIXES: Final = {
    "DataLoss": "streamctl fsck names what is lost; --schema and conditions on _offset avoid it",
    "NothingWritten": _POSTGRES,
    "MetadataUnavailable": _POSTGRES,
    JAVA_GONE: "dmesg tells if its memory was wanted by others",
}
_TAKEN: Final = "PATH_ALREADY_EXISTS"
_NAMING: Final = "fields are those of a sample of values; --schema TOPIC=COLUMNS names others"


def sql(
    text: Annotated[str, typer.Argument(metavar="QUERY", help="SELECT ... FROM topic ...")],
    *,
    form: Annotated[Format, typer.Option("--format", help="How results are given.")] = Format.table,
    output: Annotated[
        str | None, typer.Option("--output", metavar="DIR", help="Where Parquet goes.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, max=MAX_ROWS, metavar="N", help="Rows at most.")
    ] = None,
    as_of: Annotated[
        str | None,
        typer.Option("--as-of", metavar="ID|TIME", help="A snapshot, or a time, to read as of."),
    ] = None,
    schema: Annotated[
        list[str] | None,
        typer.Option(
            "--schema", metavar="TOPIC=COLUMNS", help="Names and types of fields. Repeatable."
        ),
    ] = None,
    registry: Annotated[
        str | None,
        typer.Option("--registry", metavar="URL", help="Schema registry that values are of."),
    ] = None,
    postgres: Annotated[str | None, LOG_OPTIONS["postgres"][1]] = None,
    store: Annotated[str | None, LOG_OPTIONS["store"][1]] = None,
    data: Annotated[Path | None, LOG_OPTIONS["data"][1]] = None,
    master: Annotated[str, RUN_OPTIONS["master"][1]] = DEFAULT_MASTER,
) -> None:
    """Ask topics with SQL, without brokers.

    Fields of JSON objects (or of Avro, with --registry) are columns, beside _key, _value, _headers,
    _partition, _offset and _timestamp.
    """
    if (form is Format.parquet) != (output is not None):
        raise WrongUsage("--format parquet and --output DIR go together")
    if output is not None:
        output = absolute(output)
    told = {POSTGRES: postgres, STORE: store, DATA: data}
    log = {name: str(value) for name, value in told.items() if value is not None}
    options = UpkeepOptions(log=log, master=master)
    _check_time(as_of)
    location = options.location()
    _tell("starting Spark")
    try:
        with java_words_aside():
            session = build_session(
                "streamhouse sql",
                master=master,
                packages=(Package.AVRO,) if registry else (),
                location=location,
                settings=_SETTINGS,
                java_directory=own_directory(),  # of no interest to who asks
            )
    except JavaMissing as missing:
        raise JobFailed("Spark cannot be started", fix=str(missing)) from missing
    tables = TableOptions(
        columns=_schemas(schema or ()),
        registry=Registry(url=registry) if registry else None,
        as_of=as_of,
    )
    _tell("reading topics")
    _answer(TopicTables(session, location, tables), text, form, output=output, limit=limit)


def _tell(step: str) -> None:
    """Say to whoever waits at a terminal what takes so long."""
    if sys.stderr.isatty():
        sys.stderr.write(f"{step} ...\n")
        sys.stderr.flush()


def _answer(
    tables: TopicTables, text: str, form: Format, *, output: str | None, limit: int | None
) -> None:
    """Run the query; all that Spark has to say of it comes as one line.

    Raises:
        JobFailed: it cannot be run, or has failed.
    """
    try:
        write(tables.plan(text), form, output=output, limit=limit)
    except NotAQuery as error:
        raise WrongUsage(str(error)) from error
    except (ParseException, AnalysisException) as error:
        if error.getCondition() == _PLANNING_FAILED:
            raise _failed(error) from error
        if error.getCondition() == _TAKEN:
            raise WrongUsage(f"{output} is there already", fix="give another --output") from error
        said = str(error).partition("\n\nJVM stacktrace")[0].strip()
        if isinstance(error, ParseException):  # it shows where
            raise WrongUsage(said, fix=_QUOTING) from error
        raise WrongUsage(said.partition(";\n")[0], fix=_NAMING) from error  # without Spark's plan
    except FAILURES as error:
        raise _failed(error) from error


def _failed(error: Exception) -> JobFailed:
    said = explain(error).partition("; failOnDataLoss")[0]  # which is no option here
    return JobFailed(said, fix=next((fix for name, fix in _FIXES.items() if name in said), ""))


def _check_time(as_of: str | None) -> None:
    if as_of is None:
        return
    try:
        parse_time(as_of)
    except ValueError as error:
        raise WrongUsage(f"--as-of: {error}") from error


def _schemas(words: Sequence[str]) -> dict[str, StructType]:
    """Return columns by topic; a session has to be there, for DDL is Spark's to parse."""
    return {topic: parse_columns(ddl) for topic, ddl in parse_pairs("--schema", words).items()}


if __name__ == "__main__":
    run(sql)
