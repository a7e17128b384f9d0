"""Workers that cannot be started: at first that ends the command, later it is tried again."""

import asyncio
import errno
import os
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Final

import pytest

from broker.workers import Worker, WorkerOrder

ORDER: Final = WorkerOrder(flags={"worker": 0}, config_file=None)
PATIENCE_S: Final = 120.0


def serve_for_a_moment(_: WorkerOrder, sender: Connection) -> None:
    sender.send(("127.0.0.1:1", "127.0.0.1:2"))


def refuse(_: SpawnProcess) -> None:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


async def test_a_worker_that_cannot_be_started_again_is_started_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a worker that dies when there is no descriptor left for another process
    worker = Worker(ORDER)
    start, begun, third = SpawnProcess.start, list[SpawnProcess](), asyncio.Event()

    def start_first_and_third(process: SpawnProcess) -> None:
        begun.append(process)
        if len(begun) == 2:
            refuse(process)
        if len(begun) == 3:
            third.set()
        start(process)

    monkeypatch.setattr(SpawnProcess, "start", start_first_and_third)

    # When the command goes on, then the worker is started in the end
    running = asyncio.create_task(worker.keep_running(serve_for_a_moment))
    waiting = asyncio.create_task(third.wait())
    await asyncio.wait([running, waiting], timeout=PATIENCE_S, return_when="FIRST_COMPLETED")
    waiting.cancel()
    worker.stop()
    await running
    assert third.is_set()


async def test_a_worker_that_cannot_be_started_at_first_ends_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SpawnProcess, "start", refuse)
    worker = Worker(ORDER)
    with pytest.raises(OSError, match=os.strerror(errno.EMFILE)):
        await worker.keep_running(serve_for_a_moment)
    worker.stop()  # as the others are, one of which may not have begun, too
