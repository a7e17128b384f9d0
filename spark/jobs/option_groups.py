"""The options that jobs share, in groups: kind, name, metavar and help of each."""

import inspect
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from spark.log_location import POSTGRES_VARIABLE, STORE_VARIABLE

Options = Mapping[str, tuple[Any, Any]]
"""By name of the parameter: its type, and typer's option."""

BOOTSTRAP_VARIABLE: Final = "STREAMHOUSE_BOOTSTRAP"
MASTER_VARIABLE: Final = "STREAMHOUSE_SPARK_MASTER"
DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"
DEFAULT_MASTER: Final = "local[2]"
LOOPBACK: Final = "127.0.0.1"

LOG: Final = "Where the log is"
RUN: Final = "How it runs"


class Source(StrEnum):
    """Where records come from.

    `kafka` asks brokers, with Spark's own connector; `direct` asks the index and the store.
    """

    kafka = "kafka"
    direct = "direct"


def _option(*names: str, text: str, panel: str = RUN, **more: Any) -> Any:
    return typer.Option(*names, help=text, rich_help_panel=panel, **more)


def _data_directory(text: str) -> Path:
    """Return a broker's directory; an empty word, where a variable was not set, is none."""
    if not text.strip():
        raise typer.BadParameter("it is empty; name the --data of a broker")
    return Path(text)


LOG_OPTIONS: Final[Options] = {
    "postgres": (
        str | None,
        _option(
            "--postgres",
            metavar="DSN",
            panel=LOG,
            text=f"Metadata. Default: ${POSTGRES_VARIABLE}, the place for one with a password.",
        ),
    ),
    "store": (
        str | None,
        _option(
            "--store", metavar="URL", panel=LOG, text=f"Object store. Default: ${STORE_VARIABLE}."
        ),
    ),
    "data": (
        Path | None,
        _option(
            "--data",
            metavar="DIR",
            parser=_data_directory,
            panel=LOG,
            text="A broker's directory with its embedded Postgres, in place of both.",
        ),
    ),
}
RUN_OPTIONS: Final[Options] = {
    "master": (
        str,
        _option("--master", metavar="URL", envvar=MASTER_VARIABLE, text="Spark's master."),
    ),
}
METRICS_OPTIONS: Final[Options] = {
    "metrics_port": (
        int | None,
        _option(
            "--metrics-port",
            metavar="PORT",
            min=0,
            max=65535,
            text="Serve Prometheus metrics of queries at this port; 0 for any that is free.",
        ),
    ),
    "metrics_host": (
        str,
        _option("--metrics-host", metavar="HOST", text="The address to serve them at."),
    ),
    "metrics_file": (
        Path | None,
        _option(
            "--metrics-file",
            metavar="FILE",
            text="Write them there after each batch, for the node exporter: NAME.prom.",
        ),
    ),
}
TOPIC_OPTIONS: Final[Options] = {
    "topic": (
        list[str],
        _option("--topic", metavar="NAME", panel=LOG, text="What to read. Repeatable."),
    ),
    "source": (
        Source,
        _option("--source", panel=LOG, text="Read through brokers, or from the store itself."),
    ),
    "bootstrap": (
        str,
        _option(
            "--bootstrap",
            metavar="HOST:PORT",
            envvar=BOOTSTRAP_VARIABLE,
            panel=LOG,
            text="Brokers to start from, with --source kafka.",
        ),
    ),
    "properties": (
        list[str] | None,
        _option(
            "-X",
            metavar="KEY=VALUE",
            panel=LOG,
            text="A property of Kafka's Java client. Repeatable; secrets belong into --config.",
        ),
    ),
    "config": (
        list[Path] | None,
        _option(
            "--config",
            metavar="FILE",
            panel=LOG,
            text="A file of such properties, key=value a line. -X wins. Repeatable.",
        ),
    ),
    "reader": (
        list[str] | None,
        _option(
            "--read-option",
            metavar="KEY=VALUE",
            panel=LOG,
            text="An option of the source, such as maxOffsetsPerTrigger=100000. Repeatable.",
        ),
    ),
}
OUTPUT_OPTIONS: Final[Options] = {
    "output": (str, _option("--output", metavar="WHERE", text="Where results go.")),
    "checkpoint": (
        str,
        _option(
            "--checkpoint",
            metavar="DIR",
            text="What a run that resumes reads first. Default: beside the output.",
        ),
    ),
    "follow": (
        bool,
        _option("--follow", metavar="", text="Go on with what is still to come, until stopped."),
    ),
}
Report = Annotated[
    Path | None,
    _option("--report", metavar="DIR", text="Write pictures and numbers of this run there."),
]
"""Of the jobs that write one."""

DEFAULTS: Final[Mapping[str, Any]] = {
    "master": DEFAULT_MASTER,
    "source": Source.kafka,
    "bootstrap": DEFAULT_BOOTSTRAP,
    "checkpoint": "",
    "metrics_host": LOOPBACK,
    "follow": False,
    "topic": inspect.Parameter.empty,
    "output": inspect.Parameter.empty,
}
