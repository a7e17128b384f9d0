"""An upkeep process that dies untold what to do, cannot be started, or is of another version."""

import asyncio
import errno
import json
import os
import sys
from asyncio.subprocess import Process
from typing import Any, Final

import pytest
import uvloop
from prometheus_client import CollectorRegistry

from broker.upkeep.upkeep_order import UpkeepOrder
from broker.upkeep.upkeep_process import UpkeepProcess
from broker.upkeep.upkeep_report import Count, UpkeepReport
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


def reporting(monkeypatch: pytest.MonkeyPatch, report: dict[str, Any]) -> None:
    """Have a process in place of the upkeep that reports this, and then lives on."""
    create = asyncio.create_subprocess_exec
    code = "import sys; sys.stdin.readline(); print(sys.argv[1], flush=True); sys.stdin.read()"

    async def create_reporting(*_: str, **options: Any) -> Process:
        return await create(sys.executable, "-c", code, json.dumps(report), **options)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", create_reporting)


async def test_one_of_a_later_version_is_listened_to(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given a package that was upgraded under a broker, with more work that is counted
    report = json.loads(UpkeepReport(counts={}, succeeded={}, failed={}, backlog={}).to_line())
    report["counts"] = {"wonders_done": 2, Count.OBJECTS_DELETED: 3}
    report["succeeded"] = {"wonder": 1}
    reporting(monkeypatch, report)
    registry = CollectorRegistry()
    upkeep = UpkeepProcess(ORDER, registry, compacts=True)

    # When the upkeep of that version reports, then what the broker knows is counted
    running = asyncio.create_task(upkeep.run())
    try:
        name = "streamhouse_upkeep_objects_deleted_total"
        async with asyncio.timeout(DEADLINE_S):
            while not running.done() and registry.get_sample_value(name) != 3:
                await asyncio.sleep(0.01)
        assert upkeep.state() == "ok"
        assert not running.done()
    finally:
        running.cancel()
        await asyncio.wait([running])


async def test_one_that_is_not_understood_ends_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a process whose reports have become something else
    reporting(monkeypatch, {"all": "well"})
    registry = CollectorRegistry()
    upkeep = UpkeepProcess(ORDER, registry, compacts=True)

    # When it reports, then it is ended, and started again
    running = asyncio.create_task(upkeep.run())
    try:
        name = "streamhouse_upkeep_restarts_total"
        async with asyncio.timeout(DEADLINE_S):
            while not running.done() and (registry.get_sample_value(name) or 0) < 2:
                await asyncio.sleep(0.01)
        assert not running.done()
    finally:
        running.cancel()
        await asyncio.wait([running])
