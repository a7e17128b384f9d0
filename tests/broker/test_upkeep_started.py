"""An upkeep process that does not live to be told what to do, or cannot be started."""

import asyncio
import errno
import os
from asyncio.subprocess import Process
from typing import Any, Final

import pytest
import uvloop
from prometheus_client import CollectorRegistry

from broker.upkeep.upkeep_order import UpkeepOrder
from broker.upkeep.upkeep_process import UpkeepProcess
from storage.config import PostgresConfig, UpkeepConfig

DEADLINE_S: Final = 20.0
KILLED: Final = -9
ORDER: Final = UpkeepOrder(
    dsn="",
    store_url="",
    pool=PostgresConfig(),
    upkeep=UpkeepConfig(build_interval_ms=1),
    set={},
)


def test_one_that_is_killed_as_it_starts_ends_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given a process that has gone, with its pipes, before anything was written to it
    create = asyncio.create_subprocess_exec

    async def create_killed(*arguments: Any, **options: Any) -> Process:
        process = await create(*arguments, **options)
        assert process.stdin is not None
        process.kill()
        while not process.stdin.is_closing():
            await asyncio.sleep(0.01)
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", create_killed)

    # When the broker goes on, then it hears of a death, as of any other
    async def run_once() -> int:
        async with asyncio.timeout(DEADLINE_S):
            return await UpkeepProcess(ORDER, CollectorRegistry(), compacts=True)._run_once()

    assert uvloop.run(run_once()) == KILLED


async def test_one_that_cannot_be_started_is_started_later(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given a machine that has no descriptor left, the first times
    registry = CollectorRegistry()
    upkeep = UpkeepProcess(ORDER, registry, compacts=True)
    refused = [errno.EMFILE, errno.EAGAIN]
    started = asyncio.Event()

    async def create(*_: Any, **__: Any) -> Process:
        if refused:
            number = refused.pop()
            raise OSError(number, os.strerror(number))
        started.set()
        return await asyncio.Future()

    monkeypatch.setattr(asyncio, "create_subprocess_exec", create)

    # When the broker goes on, then each is a death, and it is started in the end
    running = asyncio.create_task(upkeep.run())
    try:
        async with asyncio.timeout(DEADLINE_S):
            await started.wait()
        assert upkeep.state() == "down"
        assert registry.get_sample_value("streamhouse_upkeep_restarts_total") == 2
    finally:
        running.cancel()
        await asyncio.wait([running])
