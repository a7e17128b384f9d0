"""The command `streamhouse serve`."""

import asyncio
import importlib
import importlib.metadata
import multiprocessing
import os
import signal
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import structlog
import typer
import uvloop

from broker.config import InvalidSettings, Settings, read_settings
from broker.configs.broker_configs import BrokerConfig
from broker.logs import configure_logs
from broker.network.file_limit import raise_file_limit
from broker.network.free_addresses import check_addresses
from broker.process_title import has_secrets
from broker.start_failures import OWN_ADDRESS, start_failure
from broker.workers import WorkerFailed, WorkerOrder, orders, run_workers
from storage.errors import BrokerDisplaced, DatabaseNotSupported, StorageError
from storage.postgres.postgres_binaries import EmbeddedPostgresError
from storage.postgres.postgres_embedded import EmbeddedPostgres

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

    from broker.node import Running

SHUTDOWN_S: Final = 5.0
USAGE: Final = 2

app = typer.Typer(
    no_args_is_help=True,
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


@app.command(name="serve")
def serve_command(
    listen: Annotated[
        list[str] | None,
        typer.Option(
            help="[PROTOCOL://]HOST:PORT for Kafka clients, with PLAINTEXT, SSL, SASL_PLAINTEXT or"
            " SASL_SSL; repeats.  [default: 127.0.0.1:9092]"
        ),
    ] = None,
    advertise: Annotated[
        list[str] | None,
        typer.Option(
            help="[PROTOCOL://]HOST:PORT that clients are told to connect to; repeats, in"
            " --listen's order."
        ),
    ] = None,
    http: Annotated[
        str | None,
        typer.Option(help="HOST:PORT for health and metrics.  [default: 127.0.0.1:9644]"),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="<path>",
            help="Directory of the embedded stores.  [default: ./streamhouse-data]",
        ),
    ] = None,
    postgres: Annotated[
        str | None,
        typer.Option(
            help="DSN of a Postgres 15 or later.  [default: an embedded one in DATA/postgres]"
        ),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            help="file://DIR or s3://BUCKET/PREFIX?endpoint=URL&region=R.  [default: file://DATA/objects]"
        ),
    ] = None,
    workers: Annotated[
        str | None,
        typer.Option(
            metavar="<int>",
            help="Broker processes, on consecutive ports from those of --listen and --http."
            "  [default: 1]",
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="TOML file with the same keys.", envvar="STREAMHOUSE_CONFIG")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="name=value by Kafka's broker config names; repeats."),
    ] = None,
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
        sys.exit(uvloop.run(_run_workers(read, flags, config)))
    sys.exit(uvloop.run(_run(read, broker_config, _announce)))


def _run_worker(order: WorkerOrder, sender: "Connection") -> None:
    """Be one of several brokers; runs in a process of its own."""
    configure_logs()
    settings, config = read_settings(order.flags, order.config_file)

    def announce(where: "Running") -> None:
        sender.send((str(where.bootstrap), str(where.http)))

    sys.exit(uvloop.run(_run(settings, config, announce)))


async def _run_workers(settings: Settings, flags: dict[str, Any], config_file: Path | None) -> int:
    stop = _stop_on_signals()

    async def run() -> None:
        await asyncio.to_thread(check_addresses, settings)
        async with AsyncExitStack() as stack:
            dsn = await _postgres(settings, stack)
            given = orders(settings, flags, config_file, dsn)
            serving.set()
            await run_workers(given, _run_worker, stop)

    serving = asyncio.Event()
    running, stopping = asyncio.create_task(run()), asyncio.create_task(stop.wait())
    await asyncio.wait([running, stopping], return_when=asyncio.FIRST_COMPLETED)
    if not serving.is_set():  # told to stop while Postgres starts
        running.cancel()
    try:
        await running
    except asyncio.CancelledError:
        return 0
    except (OSError, EmbeddedPostgresError, WorkerFailed) as error:
        typer.echo(f"streamhouse: {start_failure(error)}", err=True)
        return 1
    except ExceptionGroup:
        structlog.get_logger().exception("the embedded postgres failed; ending the workers")
        return 1
    return 0


def _stop_on_signals() -> asyncio.Event:
    """Return an event that is set by SIGTERM and SIGINT; a worker dies with its parent."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, stop.set)
    parent = multiprocessing.parent_process()
    if parent is not None:  # as in a crash: whoever starts the command again needs the ports
        loop.add_reader(parent.sentinel, os._exit, 1)
    return stop


async def _run(
    settings: Settings, config: BrokerConfig, announce: "Callable[[Running], None]"
) -> int:
    loop = asyncio.get_running_loop()
    stop = _stop_on_signals()
    ready: asyncio.Future[Running] = loop.create_future()
    ready.add_done_callback(lambda _: None if ready.cancelled() else announce(ready.result()))
    serving = asyncio.create_task(_serve(settings, config, stop, ready))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
    if not ready.done():  # told to stop, or failed, before it served
        serving.cancel()
    try:
        async with asyncio.timeout(SHUTDOWN_S):
            await serving
    except asyncio.CancelledError:
        return 0
    except TimeoutError:  # before OSError, which it is a kind of
        typer.echo(f"streamhouse: not down after {SHUTDOWN_S} s, ending all the same", err=True)
        return 1
    except (OSError, StorageError, DatabaseNotSupported, EmbeddedPostgresError) as error:
        typer.echo(f"streamhouse: {start_failure(error)}", err=True)
        return 1
    except ExceptionGroup as failures:
        displaced = failures.subgroup(BrokerDisplaced)
        if displaced is not None:
            typer.echo(
                f"streamhouse: {displaced.exceptions[0]}; this one ends{OWN_ADDRESS}", err=True
            )
            return 1
        structlog.get_logger().exception("a part of the broker failed; ending it")
        return 1
    return 0


async def _postgres(settings: Settings, stack: AsyncExitStack) -> str:
    """Return the DSN that was given, or that of an embedded one, which runs as long as `stack`."""
    if settings.postgres:
        return settings.postgres
    embedded = EmbeddedPostgres(settings.data / "postgres")
    return (await stack.enter_async_context(embedded)).dsn


async def _serve(
    settings: Settings, config: BrokerConfig, stop: asyncio.Event, ready: "asyncio.Future[Running]"
) -> None:
    """Run the broker on the Postgres it was given, or on an embedded one.

    Most of a start is imports and Postgres; they go on at the same time.
    """
    await asyncio.to_thread(check_addresses, settings)
    importing = asyncio.create_task(asyncio.to_thread(importlib.import_module, "broker.app"))
    async with AsyncExitStack() as stack:
        dsn = await _postgres(settings, stack)
        app_module = await importing
        alone = not settings.postgres
        await app_module.serve(settings, config, dsn=dsn, alone=alone, stop=stop, ready=ready)


def _announce(where: "Running") -> None:
    print(f"ready bootstrap={where.bootstrap} http={where.http}", flush=True)  # noqa: T201
