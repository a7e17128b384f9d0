"""`serve --workers N`: N broker processes on consecutive ports, each a node of its own.

This process keeps the embedded Postgres, if there is one, and the workers: one that dies is
started again, on the same port and so with the same node id. Told to stop, it stops them all. A
worker whose parent died dies at once, as in a crash: who starts the command again needs its port.
"""

import asyncio
import multiprocessing
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any, Final

import structlog

from broker.config import Settings
from broker.network.addresses import Address, parse_address
from storage.backoff import Backoff

STOP_S: Final = 6.0
RESTART_AT_MOST_S: Final = 5.0
STEADY_S: Final = 10.0

log = structlog.get_logger()
_spawn = multiprocessing.get_context("spawn")  # a forked child would share the event loop's state


Ready = tuple[str, str]
"""Where a worker serves: bootstrap and http addresses."""

Target = Callable[["WorkerOrder", Connection], None]
"""Runs in the child: serves as ordered, and sends `Ready` once it does."""


class WorkerFailed(Exception):
    """A worker ended before it served; it has said why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOrder:
    """All that a worker is started with; it reads its settings from this, as its parent did.

    Attributes:
        flags: of the command line, by the names of settings, changed for this worker.
    """

    flags: dict[str, Any]
    config_file: Path | None


def orders(
    settings: Settings, flags: dict[str, Any], config_file: Path | None, dsn: str
) -> list[WorkerOrder]:
    """Return what each worker is started with."""
    return [
        WorkerOrder(
            flags={
                **flags,
                "listen": _shifted(settings.listen, worker),
                "advertise": _shifted(settings.advertise, worker),
                "http": _shifted([settings.http], worker)[0],
                "postgres": dsn,
                "workers": 1,
                "worker": worker,
            },
            config_file=config_file,
        )
        for worker in range(settings.workers)
    ]


def _shifted(texts: Sequence[str], by: int) -> list[str]:
    """Return the same addresses, `by` ports further on."""
    shifted = []
    for text in texts:
        protocol, separator, _ = text.rpartition("://")
        address = parse_address(text, listener=True)
        shifted.append(f"{protocol}{separator}{Address(address.host, address.port + by)}")
    return shifted


class Worker:
    """One child process, started again whenever it dies.

    Attributes:
        ready: where it serves, once it does for the first time.
    """

    def __init__(self, order: WorkerOrder) -> None:
        self._order = order
        self._process: SpawnProcess | None = None
        self._stopping = asyncio.Event()
        self.ready: asyncio.Future[Ready] = asyncio.get_running_loop().create_future()

    async def keep_running(self, target: Target) -> None:
        """Run it until it is stopped.

        Raises:
            OSError, WorkerFailed: it could not be started, or ended before it served, the first
                time; later it is tried again.
        """
        backoff = Backoff(most_s=RESTART_AT_MOST_S)
        loop = asyncio.get_running_loop()
        while not self._stopping.is_set():
            began_s = loop.time()
            number = self._order.flags["worker"]
            try:
                code = await self._run_once(target)
            except OSError as error:  # as when no descriptor, or no process, is left
                if not self.ready.done():
                    raise
                log.error("worker not started", worker=number, reason=str(error))  # noqa: TRY400
            else:
                if self._stopping.is_set():
                    return
                if not self.ready.done():
                    raise WorkerFailed(f"worker {number} did not start")
                log.error("worker died", worker=number, exit_code=code)
            if loop.time() - began_s > STEADY_S:
                backoff = Backoff(most_s=RESTART_AT_MOST_S)
            await _first_of(backoff.wait(), self._stopping.wait())

    async def _run_once(self, target: Target) -> int | None:
        """Return its exit code when it has ended; its ready message resolves `ready` meanwhile."""
        receiver, sender = _spawn.Pipe(duplex=False)
        with receiver:
            with sender:
                process = _spawn.Process(target=target, args=(self._order, sender))
                process.start()
            self._process = process  # not before: what has not begun cannot be ended
            with _readable(receiver.fileno()) as message:
                await message.wait()
            with suppress(EOFError):  # nothing came: it ended first
                where = receiver.recv()
                if not self.ready.done():
                    self.ready.set_result(where)
        with _readable(process.sentinel) as ended:
            await ended.wait()
        process.join()
        return process.exitcode

    def stop(self) -> None:
        """Ask it to stop."""
        self._stopping.set()
        if self._process is not None and self._process.is_alive():
            self._process.terminate()

    def kill(self) -> None:
        if self._process is not None and self._process.is_alive():
            self._process.kill()


async def _first_of(*waits: Coroutine[Any, Any, object]) -> None:
    """Wait until one of them is over, and give up the others."""
    tasks = [asyncio.create_task(wait) for wait in waits]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()


@contextmanager
def _readable(descriptor: int) -> Iterator[asyncio.Event]:
    """Watch a descriptor: the event is set when it can be read, or its other end is closed."""
    loop = asyncio.get_running_loop()
    event = asyncio.Event()
    loop.add_reader(descriptor, event.set)
    try:
        yield event
    finally:
        loop.remove_reader(descriptor)


async def run_workers(given: Sequence[WorkerOrder], target: Target, stop: asyncio.Event) -> None:
    """Run all workers until `stop` is set; print the ready line when all serve.

    Raises:
        WorkerFailed: one of them could not start; the others are stopped.
    """
    workers = [Worker(order) for order in given]
    running = [asyncio.create_task(worker.keep_running(target)) for worker in workers]
    announcing = asyncio.create_task(_announce(workers))
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([*running, stopping], return_when=asyncio.FIRST_COMPLETED)
    finally:
        announcing.cancel()
        stopping.cancel()
        for worker in workers:
            worker.stop()
        _, late = await asyncio.wait(running, timeout=STOP_S)
        for worker in workers if late else ():
            worker.kill()
    await asyncio.gather(*running)


async def _announce(workers: Sequence[Worker]) -> None:
    places = [await worker.ready for worker in workers]
    bootstrap, http = (",".join(texts) for texts in zip(*places, strict=True))
    print(f"ready bootstrap={bootstrap} http={http}", flush=True)  # noqa: T201
