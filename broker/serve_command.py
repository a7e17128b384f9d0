"""The command `streamhouse serve`."""

import importlib
import importlib.metadata
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import structlog
import typer
import uvloop

from broker.config import InvalidSettings, read_settings
from broker.logs import configure_logs
from broker.network.file_limit import raise_file_limit
from broker.process_title import has_secrets
from broker.serve_run import run_one, run_several

if TYPE_CHECKING:
    from broker.node import Running

USAGE: Final = 2

app = typer.Typer(
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    add_completion=False,
    pretty_exceptions_enable=False,  # they show local variables, a DSN among them
)


def _show_version(*, wanted: bool) -> None:
    if wanted:
        typer.echo(f"streamhouse {importlib.metadata.version('streamhouse')}")
        raise typer.Exit


@app.callback()
def streamhouse(
    *,
    show_version: Annotated[
        bool,
        typer.Option(
            "--version",
            is_eager=True,
            metavar="",
            callback=lambda value: _show_version(wanted=value),
            help="Show the version and exit.",
        ),
    ] = False,
) -> None:
    """A Kafka-compatible broker: records in object storage, metadata in Postgres."""


Listen = Annotated[
    list[str] | None,
    typer.Option(
        help="[PROTOCOL://]HOST:PORT for Kafka clients, with PLAINTEXT, SSL, SASL_PLAINTEXT or"
        " SASL_SSL; repeats. Default: 127.0.0.1:9092."
    ),
]
Advertise = Annotated[
    list[str] | None,
    typer.Option(
        help="[PROTOCOL://]HOST:PORT that clients are told to connect to; repeats, in"
        " --listen's order."
    ),
]
Http = Annotated[
    str | None,
    typer.Option(help="HOST:PORT for health and metrics. Default: 127.0.0.1:9644."),
]
Data = Annotated[
    str | None,
    typer.Option(
        metavar="<path>",
        help="Directory of the embedded stores. Default: ./streamhouse-data.",
    ),
]
Postgres = Annotated[
    str | None,
    typer.Option(help="DSN of a Postgres 15 or later. Default: an embedded one in DATA/postgres."),
]
Store = Annotated[
    str | None,
    typer.Option(
        help="file://DIR or s3://BUCKET/PREFIX?endpoint=URL&region=R. Default: file://DATA/objects."
    ),
]
Workers = Annotated[
    str | None,
    typer.Option(
        metavar="<int>",
        help="Broker processes, on consecutive ports from those of --listen and --http."
        " Default: 1.",
    ),
]
ConfigFile = Annotated[
    Path | None, typer.Option(help="TOML file with the same keys.", envvar="STREAMHOUSE_CONFIG")
]
BrokerSettings = Annotated[
    list[str] | None,
    typer.Option("--set", help="name=value by Kafka's broker config names; repeats."),
]


@app.command(name="serve")
def serve_command(
    listen: Listen = None,
    advertise: Advertise = None,
    http: Http = None,
    data: Data = None,
    postgres: Postgres = None,
    store: Store = None,
    workers: Workers = None,
    config: ConfigFile = None,
    settings: BrokerSettings = None,
) -> None:
    """Run a broker until it is told to stop (Ctrl-C or SIGTERM).

    With no option it keeps everything in ./streamhouse-data and serves on 127.0.0.1:9092.

    Each option can also be given as STREAMHOUSE_NAME in the environment.

    Examples:
      streamhouse serve

      streamhouse serve --listen 0.0.0.0:9092 --advertise broker1.example:9092
      --postgres postgresql://user:secret@db/streamhouse --store 's3://my-bucket/log?region=eu-west-1'

      streamhouse serve --workers 2
      (two brokers, on 127.0.0.1:9092 and :9093: one for each core)

      streamhouse serve --set num.partitions=6 --set auto.create.topics.enable=false
    """
    configure_logs()
    raise_file_limit()
    if has_secrets(sys.argv[1:]):
        structlog.get_logger().warning(
            "the command line had a secret", instead="a variable or --config FILE"
        )
    flags: dict[str, Any] = {
        name: value
        for name, value in (
            ("listen", listen),
            ("advertise", advertise),
            ("http", http),
            ("data", data),
            ("postgres", postgres),
            ("store", store),
            ("workers", workers),
        )
        if value is not None
    }
    try:
        if settings:
            flags["set"] = settings
        read, broker_config = read_settings(flags, config)
    except InvalidSettings as problems:
        for line in str(problems).splitlines():
            typer.echo(f"streamhouse: {line}", err=True)
        raise typer.Exit(USAGE) from None
    if read.workers > 1:
        sys.exit(uvloop.run(run_several(read, flags, config)))
    sys.exit(uvloop.run(run_one(read, broker_config, _announce)))


def _announce(where: "Running") -> None:
    print(f"ready bootstrap={where.bootstrap} http={where.http}", flush=True)  # noqa: T201
