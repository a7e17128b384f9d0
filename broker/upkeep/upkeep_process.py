"""The broker's side of the upkeep process: starts it, starts it again, and ends it.

It is started when the broker has served for as long as between two looks for what is to be built:
until then whoever comes back to a broker that was started again has the processors.
If it dies, cannot be started, or is not understood, the broker goes on, says so in log, metrics and
health, and starts it again. It ends with the broker: told to (its standard input is closed) it has
STOP_S, then it is killed.
"""

import asyncio
import os
import sys
import time
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from typing import Final

import structlog
from prometheus_client import CollectorRegistry

from broker.config import PREFIX
from broker.upkeep.upkeep_order import UpkeepOrder
from broker.upkeep.upkeep_report import UnreadableReport, UpkeepMetrics, Work, read_report
from storage.backoff import Backoff

MODULE: Final = "broker.upkeep.upkeep_main"
RESTART_FIRST_S: Final = 0.2
RESTART_AT_MOST_S: Final = 30.0
STEADY_S: Final = 60.0
STOP_S: Final = 1.0
SILENCE_S: Final = 30.0
"""A process that has not reported for so long is down, whatever the operating system says."""

log = structlog.get_logger()


class UpkeepProcess:
    """One child process, started again whenever it dies.

    Args:
        order: what it is told.
        registry: of the broker; takes its metrics.
        compacts: whether it does (log.cleaner.enable).
    """

    def __init__(self, order: UpkeepOrder, registry: CollectorRegistry, *, compacts: bool) -> None:
        works = [work for work in Work if compacts or work is not Work.COMPACT]
        self._order = order
        self._metrics = UpkeepMetrics(registry, works, time.monotonic)
        self._heard_s: float | None = None
        self._deaths = 0

    def state(self) -> str:
        """Return `ok`, `starting`, or `down`, for people."""
        if self._heard_s is None:
            return "down" if self._deaths else "starting"
        return "ok" if time.monotonic() - self._heard_s < SILENCE_S else "down"

    async def run(self) -> None:
        """Keep it running until cancelled."""
        await asyncio.sleep(self._order.upkeep.build_interval_ms / 1000)
        backoff = Backoff(RESTART_FIRST_S, RESTART_AT_MOST_S)
        while True:
            began_s = time.monotonic()
            try:
                code = await self._run_once()
                log.error("upkeep died", exit_code=code)
            except OSError as error:  # as when no descriptor, or no process, is left
                log.error("upkeep not started", reason=str(error))  # noqa: TRY400
            except UnreadableReport as error:  # a package of another version was put there
                log.error("upkeep not understood", reason=str(error))  # noqa: TRY400
            self._heard_s = None
            self._deaths += 1
            self._metrics.died()
            if time.monotonic() - began_s > STEADY_S:
                backoff = Backoff(RESTART_FIRST_S, RESTART_AT_MOST_S)
            await backoff.wait()

    async def _run_once(self) -> int:
        """Return its exit code when it has ended.

        Raises:
            OSError: it cannot be started.
            UnreadableReport: what it reports is not what this version reads.
        """
        path = os.pathsep.join(filter(None, sys.path))  # it runs the same code as this process
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", MODULE),  # -P: no module of the working directory
            stdin=PIPE,
            stdout=PIPE,
            env=_environment() | {"PYTHONPATH": path},
            start_new_session=True,  # Ctrl-C is the broker's, which then ends this process
        )
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            if not process.stdin.is_closing():  # else it was killed before it was told anything
                process.stdin.write(self._order.to_line())
            async for line in process.stdout:
                if not line.endswith(b"\n"):  # it was killed while it wrote
                    break
                self._heard_s = time.monotonic()
                self._metrics.take(read_report(line))
            return await process.wait()
        finally:
            await _end(process)


def _environment() -> dict[str, str]:
    """Return this process's variables without its settings: all of them are in the order."""
    return {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}


async def _end(process: Process) -> None:
    """Let it end, but not for long."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_S):
                await process.wait()
    finally:  # cancelled once more, too
        if process.returncode is None:
            process.kill()
            await process.wait()
