"""Memory that is free goes back to the operating system."""

import asyncio
import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from broker import memory_return
from broker.memory_return import (
    GROWN_BYTES,
    LOOKS,
    MemoryReturn,
    find_trim,
    resident_bytes,
)

PIECE_BYTES = 64 * 1024
PATIENCE_S = 60.0
PIECES = 2000
LARGE = """
import psutil
from broker.memory_return import LARGE_BYTES, prepare_memory

prepare_memory()
large = bytearray(b"\\1" * 4 * LARGE_BYTES)
del large  # from here on glibc would have kept what is smaller
process, small, pieces = psutil.Process(), [], []
before = process.memory_info().rss
for _ in range(50):
    pieces.append(bytearray(b"\\1" * LARGE_BYTES))
    small.append(bytearray(b"\\1" * 10_000))
held = process.memory_info().rss - before
pieces.clear()
print(held // LARGE_BYTES, (process.memory_info().rss - before) // LARGE_BYTES)
"""

AGAIN = """
import resource
from broker.memory_return import prepare_memory

prepare_memory()
bytearray(1_000_000)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(100):
    bytearray(1_000_000)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""

THREADS = """
import ctypes, re, sys, threading
from pathlib import Path
from broker.memory_return import prepare_memory

prepare_memory()
all_hold = threading.Barrier(4)

def hold():
    held = [bytearray(100_000) for _ in range(100)]
    all_hold.wait()

threads = [threading.Thread(target=hold) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
file = ctypes.c_void_p(libc.fopen(sys.argv[1].encode(), b"w"))
libc.malloc_info(0, file)
libc.fclose(file)
print(len(re.findall("<heap nr", Path(sys.argv[1]).read_text())))
"""


def test_free_memory_between_what_stays_is_given_back() -> None:
    # Given a process that has let go of every other one of many pieces of memory
    process = psutil.Process()
    pieces = [bytearray(b"\1" * PIECE_BYTES) for _ in range(PIECES)]
    del pieces[::2]
    held_bytes = process.memory_info().rss

    # When it gives back what is free
    trim = find_trim()
    assert trim is not None, "glibc has it"
    trim(0)

    # Then most of it is gone, and what stays is whole
    given_back = held_bytes - process.memory_info().rss
    assert given_back > PIECES // 2 * PIECE_BYTES * 0.7
    assert all(piece[0] == piece[-1] == 1 for piece in pieces)


async def test_memory_is_given_back_soon_while_a_process_grows() -> None:
    # Given a process whose trim gives back what has come since the beginning
    held = [100 * GROWN_BYTES]
    returned: list[int] = []

    def trim(_: int) -> int:
        returned.append(held[0])
        held[0] = 100 * GROWN_BYTES
        return 1

    memory = MemoryReturn(trim, lambda: held[0])

    # When it grows by a little, and then by more than it may
    held[0] += GROWN_BYTES
    await memory.look()
    assert returned == []
    held[0] += 1
    await memory.look()

    # Then it is given back at once, and else now and then
    assert returned == [101 * GROWN_BYTES + 1]
    for _ in range(LOOKS - 1):
        await memory.look()
    assert len(returned) == 1
    await memory.look()
    assert len(returned) == 2


async def test_memory_that_has_become_less_may_grow_from_there() -> None:
    held, trimmed = [2 * GROWN_BYTES], asyncio.Event()

    def trim(_: int) -> int:
        trimmed.set()
        return 1

    memory = MemoryReturn(trim, lambda: held[0])
    held[0] = 0
    await memory.look()
    assert not trimmed.is_set()
    held[0] = GROWN_BYTES + 1
    await memory.look()
    assert trimmed.is_set()


async def test_it_goes_on_when_there_is_no_descriptor_to_look_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a process that has grown, and whose clients have taken all descriptors for a while
    trimmed, sizes = threading.Event(), iter([0, None, GROWN_BYTES + 1])

    def resident() -> int:
        size = next(sizes, 0)
        if size is None:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return size

    monkeypatch.setattr(memory_return, "LOOK_S", 0.0)
    monkeypatch.setattr(memory_return, "resident_bytes", resident)
    monkeypatch.setattr(memory_return, "find_trim", lambda: lambda _: trimmed.set())

    # When it looks, then it looks again when there are some, and gives memory back
    returning = asyncio.create_task(memory_return.return_memory())
    try:
        assert await asyncio.to_thread(trimmed.wait, PATIENCE_S)
    finally:
        returning.cancel()
        await asyncio.wait([returning])


def test_resident_memory_is_what_others_see() -> None:
    assert abs(resident_bytes() - psutil.Process().memory_info().rss) < PIECE_BYTES * 16


def test_large_pieces_are_given_back_at_once_whatever_lies_between_them() -> None:
    # Given a process that keeps large pieces apart, When it lets go of fifty with others between
    found = subprocess.run(
        [sys.executable, "-c", LARGE], capture_output=True, text=True, timeout=60, check=True
    )

    # Then nothing of them is left
    held, left = map(int, found.stdout.split())
    assert held >= 50
    assert left <= 1


def test_what_one_request_lets_go_the_next_one_has() -> None:
    # Given a process that keeps large pieces apart, When it takes and lets go of a megabyte, again
    # and again
    found = subprocess.run(
        [sys.executable, "-c", AGAIN], capture_output=True, text=True, timeout=60, check=True
    )

    # Then the pages of the first are those of all others: new ones would be 200 each time
    assert int(found.stdout) < 100 * 20


def test_threads_have_one_heap_together(tmp_path: Path) -> None:
    # Given a process four threads of which hold memory at once, When it is asked for its heaps
    command = [sys.executable, "-c", THREADS, str(tmp_path / "heaps.xml")]
    told = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)

    # Then it has one
    assert told.stdout.split() == ["1"]
