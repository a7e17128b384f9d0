"""Scans of records: few at a time, so that memory and processors are left for others."""

import asyncio
import errno
import gc
import os
import signal
import threading
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from multiprocessing.context import SpawnProcess
from random import Random

import pytest

from broker.record_scan_process import RecordScanProcess
from broker.record_scans import AT_ONCE, MANY_RECORDS, VERY_MANY_RECORDS, RecordScans
from broker.turns import Turns
from protocol.batch_scan import records_without_key
from protocol.compression import Codec
from protocol.errors import DecompressedTooLarge, InvalidRecords, ProtocolError
from protocol.records import Record, encode_records
from storage.errors import NothingWritten
from tests.fuzz.batches import bomb

ANN, BOB = "ann:1", "bob:1"  # connections


@pytest.fixture
def scans() -> Iterator[RecordScans]:
    made = RecordScans()
    yield made
    made.close()


async def test_few_scan_at_a_time(scans: RecordScans) -> None:
    # Given more scans than there are places, each of which waits
    begun, go = threading.Semaphore(0), threading.Event()
    together: list[int] = []
    lock = threading.Lock()
    inside = 0

    def work(_: memoryview, number: int) -> int:
        nonlocal inside
        with lock:
            inside += 1
            together.append(inside)
        begun.release()
        go.wait(10)
        with lock:
            inside -= 1
        return number

    # When all of them are asked for
    batch = memoryview(bomb(Codec.NONE, b"", 1))
    asked = [asyncio.ensure_future(scans.scan(ANN, work, batch, number)) for number in range(10)]
    for _ in range(AT_ONCE):
        await asyncio.to_thread(begun.acquire, timeout=10)
    go.set()

    # Then each has its answer, and there were never more than a few at once
    assert await asyncio.gather(*asked) == list(range(10))
    assert max(together) == AT_ONCE


NOISE = Random(0).randbytes(512 * 1024)


@pytest.mark.parametrize(
    ("payload", "kind"),
    [
        pytest.param(bytes(70 * 2**20), DecompressedTooLarge, id="too large"),
        pytest.param(NOISE + bytes(20 * 2**20), InvalidRecords, id="no records"),
    ],
)
async def test_a_refusal_that_is_kept_does_not_keep_the_records(
    scans: RecordScans, payload: bytes, kind: type[ProtocolError]
) -> None:
    # Given a batch that holds much more than it is, and a scan whose refusal somebody keeps
    batch = memoryview(bomb(Codec.GZIP, payload, 1))
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        with pytest.raises(kind) as kept:
            await scans.scan(ANN, records_without_key, batch)
        left = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
        gc.enable()

    # Then there is nothing in memory but the refusal
    assert left < 2**20, kept.value


def with_keys(count: int, *, but: int = -1) -> memoryview:
    """Return a batch of records with keys, but for one."""
    made = (Record(offset_delta=at, key=None if at == but else b"k") for at in range(count))
    return memoryview(bomb(Codec.ZSTD, encode_records(made), count))


def pid_of(_: memoryview) -> int:
    return os.getpid()


def loop_for_ever(_: memoryview) -> None:
    while True:
        pass


def die(_: memoryview) -> None:
    os._exit(1)


async def test_many_records_are_scanned_by_another_process(scans: RecordScans) -> None:
    # Given batches of very many records, all with keys, with one without, and one that is broken
    whole, without = with_keys(MANY_RECORDS), with_keys(MANY_RECORDS, but=MANY_RECORDS - 1)
    broken = memoryview(bomb(Codec.ZSTD, b"", MANY_RECORDS))

    # When they are scanned, then each has the answer that it has in this process
    assert await scans.scan(ANN, records_without_key, whole) == (0, [])
    assert await scans.scan(ANN, records_without_key, without) == (1, [MANY_RECORDS - 1])
    with pytest.raises(InvalidRecords):
        await scans.scan(ANN, records_without_key, broken)
    # and it is one process that gives it, which is not this one
    pids = {await scans.scan(ANN, pid_of, whole) for _ in range(2)}
    assert len(pids) == 1
    assert pids != {os.getpid()}
    assert await scans.scan(ANN, pid_of, with_keys(MANY_RECORDS - 1)) == os.getpid()


@pytest.mark.parametrize("count", [1, MANY_RECORDS, VERY_MANY_RECORDS])
async def test_connections_take_turns(
    scans: RecordScans, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    # Given a connection that wants very many scans. Whose turn it is counts, not who is done: a
    # thread that has no processor yet may be overtaken by all scans of the other one.
    batch, had = with_keys(count), list[str]()
    take = Turns.of

    @asynccontextmanager
    async def take_and_note(turns: Turns, sender: str) -> AsyncIterator[None]:
        async with take(turns, sender):
            had.append(sender)
            yield

    monkeypatch.setattr(Turns, "of", take_and_note)
    asked = [asyncio.ensure_future(scans.scan(ANN, pid_of, batch)) for _ in range(20)]
    await asyncio.sleep(0)

    # When another one wants one, then it waits for few of those
    await scans.scan(BOB, pid_of, batch)
    assert had.index(BOB) <= 10
    await asyncio.gather(*asked)
    assert len(had) == 21


async def test_who_is_gone_has_no_turn(scans: RecordScans) -> None:
    # Given scans of a connection that ends
    batch = with_keys(MANY_RECORDS)
    asked = [asyncio.ensure_future(scans.scan(ANN, pid_of, batch)) for _ in range(5)]
    await asyncio.sleep(0)
    for one in asked:
        one.cancel()
    await asyncio.wait(asked)

    # Then others go on
    assert await scans.scan(BOB, pid_of, batch) > 0


async def test_millions_of_records_hold_up_no_batch_of_thousands(
    scans: RecordScans, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a batch that takes as long as it may
    monkeypatch.setattr("broker.record_scan_process.LONGEST_S", 2.0)
    endless = asyncio.ensure_future(scans.scan(ANN, loop_for_ever, with_keys(VERY_MANY_RECORDS)))
    await asyncio.sleep(0)

    # When a batch of a usual size comes, then it does not wait for that
    assert await scans.scan(BOB, records_without_key, with_keys(MANY_RECORDS)) == (0, [])
    assert not endless.done()
    with pytest.raises(InvalidRecords, match="fewer"):
        await endless


async def test_a_scan_that_takes_too_long_is_given_up(
    scans: RecordScans, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a process that scans, and work for it that never ends
    batch = with_keys(MANY_RECORDS)
    first = await scans.scan(ANN, pid_of, batch)
    monkeypatch.setattr("broker.record_scan_process.LONGEST_S", 0.3)

    # When it is asked, then the batch is refused, and the process goes on
    with pytest.raises(InvalidRecords, match="fewer"):
        await scans.scan(ANN, loop_for_ever, batch)
    assert await scans.scan(ANN, pid_of, batch) == first


async def test_a_process_without_an_answer_is_replaced(
    scans: RecordScans, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a process that does not get the processor that its work needs
    batch = with_keys(MANY_RECORDS)
    first = await scans.scan(ANN, pid_of, batch)
    os.kill(first, signal.SIGSTOP)
    monkeypatch.setattr("broker.record_scan_process.PATIENCE_S", 0.3)

    # When it is asked, then the client may ask again, and another process goes on
    with pytest.raises(NothingWritten):
        await scans.scan(ANN, pid_of, batch)
    monkeypatch.undo()
    assert await scans.scan(ANN, pid_of, batch) != first


async def test_a_process_that_dies_is_started_again(scans: RecordScans) -> None:
    # Given work that kills the process
    batch = with_keys(MANY_RECORDS)

    # When it is asked, then the client may ask again
    with pytest.raises(NothingWritten):
        await scans.scan(ANN, die, batch)
    assert await scans.scan(ANN, pid_of, batch) > 0


async def test_a_process_that_cannot_be_started_is_started_later(
    scans: RecordScans, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a machine that has no descriptor left for it
    def refuse(_: SpawnProcess) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(SpawnProcess, "start", refuse)
    batch = with_keys(MANY_RECORDS)

    # When it is asked, then the client may ask again, and be answered once there is one
    for _ in range(2):
        with pytest.raises(NothingWritten):
            await scans.scan(ANN, pid_of, batch)
    monkeypatch.undo()
    assert await scans.scan(ANN, pid_of, batch) > 0


def test_one_that_could_not_be_started_can_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given one whose process could not be started
    def refuse(_: SpawnProcess) -> None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(SpawnProcess, "start", refuse)
    process = RecordScanProcess()
    with pytest.raises(NothingWritten):
        process.ask(pid_of, with_keys(1))

    # When the broker stops, then nothing keeps it from that
    process.close()


def test_nothing_is_begun_once_it_is_closed() -> None:
    # Given one that is closed
    process = RecordScanProcess()
    process.close()

    # When it is asked, then it says so
    with pytest.raises(NothingWritten):
        process.ask(pid_of, with_keys(1))
