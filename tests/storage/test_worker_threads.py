"""Threads for calls that block."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from storage.worker_threads import WorkerThreads

MOST = 3


class Gated:
    """Work that waits for its gate, and for another one when it tidies."""

    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails
        self.begun, self.gate, self.tidy_gate = (threading.Event() for _ in range(3))
        self.tidied = threading.Event()

    def run(self) -> str:
        self.begun.set()
        assert self.gate.wait(20)
        if self.fails:
            raise OSError(28, "No space left on device")
        return threading.current_thread().name

    def tidy(self) -> None:
        assert self.tidy_gate.wait(20)
        self.tidied.set()


def refuse(_: threading.Thread) -> None:
    """Begin no thread, as a system that has none to give."""
    raise RuntimeError("can't start new thread")


@pytest.fixture
def threads() -> Iterator[WorkerThreads]:
    threads = WorkerThreads(MOST, "worker")
    yield threads
    threads.shutdown()


async def test_work_goes_side_by_side_in_so_many_threads(threads: WorkerThreads) -> None:
    # Given one piece of work more than there may be threads
    works = [Gated() for _ in range(MOST + 1)]
    results = [threads.run(work) for work in works]
    for work in works[:MOST]:
        assert await asyncio.to_thread(work.begun.wait, 20)

    # When they may end, then all do, the last one in the thread of another
    assert not works[MOST].begun.is_set()
    for work in works:
        work.gate.set()
        work.tidy_gate.set()
    assert set(await asyncio.gather(*results)) == {f"worker_{n}" for n in range(MOST)}


async def test_nobody_waits_for_what_is_tidied(threads: WorkerThreads) -> None:
    # Given work that tidies up for long
    work = Gated()
    result = threads.run(work)
    work.gate.set()

    # When its result is there, then it has not tidied yet
    assert await result == "worker_0"
    assert not work.tidied.is_set()
    work.tidy_gate.set()
    assert await asyncio.to_thread(work.tidied.wait, 20)


async def test_a_failure_is_told_when_it_has_tidied(threads: WorkerThreads) -> None:
    # Given work that fails
    work = Gated(fails=True)
    work.gate.set()
    work.tidy_gate.set()

    # When it is awaited, then the error comes, and nothing is left
    with pytest.raises(OSError, match="No space"):
        await threads.run(work)
    assert work.tidied.is_set()


async def test_work_that_nobody_waits_for_any_more_goes_on(threads: WorkerThreads) -> None:
    # Given work under way
    work = Gated()
    result = threads.run(work)
    assert await asyncio.to_thread(work.begun.wait, 20)

    # When it is cancelled, then it ends all the same, and its thread takes the next
    result.cancel()
    work.gate.set()
    work.tidy_gate.set()
    assert await asyncio.to_thread(work.tidied.wait, 20)
    second = Gated()
    second.gate.set()
    second.tidy_gate.set()
    assert (await threads.run(second)).startswith("worker_")


async def test_work_after_the_end_is_refused(threads: WorkerThreads) -> None:
    threads.shutdown()
    with pytest.raises(RuntimeError, match="shut down"):
        threads.run(Gated())


async def test_a_thread_that_cannot_begin_leaves_no_trace(
    threads: WorkerThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a system without a thread to spare
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(OSError, match="start new thread"):
            threads.run(Gated())

    # When there is one again, then work is done, and it ends as ever
    work = Gated()
    work.gate.set()
    work.tidy_gate.set()
    assert await threads.run(work) == "worker_0"


async def test_one_thread_does_the_work_of_those_that_cannot_begin(
    threads: WorkerThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a thread at work, and a system that has no other one
    works = [Gated() for _ in range(MOST)]
    results = [threads.run(works[0])]
    monkeypatch.setattr(threading.Thread, "start", refuse)

    # When there is more to do, then that thread does all of it
    results += [threads.run(work) for work in works[1:]]
    for work in works:
        work.gate.set()
        work.tidy_gate.set()
    assert await asyncio.gather(*results) == ["worker_0"] * MOST
