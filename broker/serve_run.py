"""Runs a broker, or several, until SIGTERM or Ctrl-C; returns exit codes, and says why."""

import asyncio
import importlib
import multiprocessing
import os
import signal
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import structlog
import uvloop

from broker.config import Settings, read_settings
from broker.configs.broker_configs import BrokerConfig
from broker.logs import configure_logs
from broker.memory_return import prepare_memory
from broker.network.free_addresses import check_addresses
from broker.start_failures import end_told, start_failure
from broker.workers import WorkerFailed, WorkerOrder, orders, run_workers
from storage.errors import (
    BrokerDisplaced,
    DatabaseNotSupported,
    MetadataWentBack,
    StorageError,
)
from storage.log_lines import log_file
from storage.postgres.postgres_binaries import EmbeddedPostgresError
from storage.postgres.postgres_embedded import EmbeddedPostgres

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

    from broker.node import Running

SHUTDOWN_S: Final = 5.0
POSTGRES_STOP_S: Final = 4.0
"""An embedded Postgres that hangs is asked to stop for 2.5 s, and then killed."""


async def run_one(
    settings: Settings, config: BrokerConfig, announce: "Callable[[Running], None]"
) -> int:
    """Run a broker in this process until told to stop; return the exit code."""
    prepare_memory()
    loop = asyncio.get_running_loop()
    stop = _stop_on_signals()
    ready: asyncio.Future[Running] = loop.create_future()
    ready.add_done_callback(lambda _: None if ready.cancelled() else announce(ready.result()))
    serving = asyncio.create_task(_serve(settings, config, stop, ready))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
    _end_in_time(serving)
    if not ready.done():  # told to stop, or failed, before it served
        serving.cancel()
    try:
        await serving
    except asyncio.CancelledError:
        return 0
    except (OSError, StorageError, DatabaseNotSupported, EmbeddedPostgresError) as error:
        _tell(start_failure(error))
        return 1
    except ExceptionGroup as failures:
        ended = failures.subgroup((BrokerDisplaced, MetadataWentBack))
        if ended is not None:
            _tell(end_told(ended))
            return 1
        structlog.get_logger().exception("a part of the broker failed; ending it")
        return 1
    return 0


async def run_several(settings: Settings, flags: dict[str, Any], config_file: Path | None) -> int:
    """Run brokers in processes of their own until told to stop; return the exit code.

    Args:
        settings: as read from what follows.
        flags: of the command line, by the names of settings.
        config_file: of the command line.
    """
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
        _end_in_time(running)
        running.cancel()
    try:
        await running
    except asyncio.CancelledError:
        return 0
    except (OSError, EmbeddedPostgresError, WorkerFailed) as error:
        _tell(start_failure(error))
        return 1
    except ExceptionGroup:
        structlog.get_logger().exception("the embedded postgres failed; ending the workers")
        return 1
    return 0


def _end_in_time(work: "asyncio.Task[None]") -> None:
    """End this process if its event loop still runs after SHUTDOWN_S.

    What `work` waits for then is given up; an embedded Postgres is stopped after that. The loop,
    and then Python, would wait for a thread that a disk holds.
    """
    loop = asyncio.get_running_loop()

    def end() -> None:
        _tell(f"not down after {SHUTDOWN_S} s, ending all the same")
        work.cancel()
        work.add_done_callback(lambda _: os._exit(1))
        loop.call_later(POSTGRES_STOP_S, os._exit, 1)

    loop.call_later(SHUTDOWN_S, end)


def _tell(why: str) -> None:
    log_file().write(f"streamhouse: {why}\n")


def _run_worker(order: WorkerOrder, sender: "Connection") -> None:
    """Be one of several brokers; runs in a process of its own."""
    configure_logs()
    settings, config = read_settings(order.flags, order.config_file)

    def announce(where: "Running") -> None:
        sender.send((str(where.bootstrap), str(where.http)))

    sys.exit(uvloop.run(run_one(settings, config, announce)))


def _stop_on_signals() -> asyncio.Event:
    """Return an event that is set by SIGTERM, SIGINT, SIGHUP; a worker dies with its parent."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, stop.set)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as nohup has it
        loop.add_signal_handler(signal.SIGHUP, stop.set)  # its terminal was closed
    parent = multiprocessing.parent_process()
    if parent is not None:  # as in a crash: whoever starts the command again needs the ports
        loop.add_reader(parent.sentinel, os._exit, 1)
    return stop


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
