"""An upkeep process that does not live to be told what to do."""

import asyncio
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
    order = UpkeepOrder(dsn="", store_url="", pool=PostgresConfig(), upkeep=UpkeepConfig(), set={})

    # When the broker goes on, then it hears of a death, as of any other
    async def run_once() -> int:
        async with asyncio.timeout(DEADLINE_S):
            return await UpkeepProcess(order, CollectorRegistry(), compacts=True)._run_once()

    assert uvloop.run(run_once()) == KILLED
