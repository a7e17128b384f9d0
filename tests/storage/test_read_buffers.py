"""Buffers of GETs: used again only when nobody has any part of them."""

import asyncio
import gc
from random import Random

import pytest

from storage.config import KiB, MiB
from storage.reading import read_buffers
from storage.reading.read_buffers import (
    KEPT_BYTES,
    LEAST_BYTES,
    MAX_BUFFERS,
    TRIMMED_AT_ONCE,
    ReadBuffers,
)


def test_a_buffer_is_used_again_when_nobody_has_it() -> None:
    buffers = ReadBuffers()
    first = buffers.take(MiB)
    address = id(first)
    del first
    again = buffers.take(MiB - 1000)
    assert id(again) == address
    assert len(again) == MiB - 1000
    del again
    assert len(buffers.take(MiB + 1000)) == MiB + 1000


def test_whoever_refers_to_a_buffer_keeps_it() -> None:
    buffers = ReadBuffers()
    first = buffers.take(MiB)
    assert buffers.take(MiB) is not first


def test_a_view_of_a_part_keeps_a_buffer_as_it_is() -> None:
    # Given a view of a few bytes, made of another view, while all else is gone
    buffers = ReadBuffers()
    first = buffers.take(MiB)
    first[:] = b"a" * MiB
    view = memoryview(first)[100:200][3:5].cast("B")
    address = id(first)
    del first

    # When many others are taken and written, of all sizes near it
    for size in range(MiB - 200, MiB + 200, 10):
        other = buffers.take(size)
        assert id(other) != address
        other[:] = b"b" * size
        del other

    # Then it is as it was, and is used again when it goes
    assert bytes(view) == b"aa"
    assert len(view.obj) == MiB  # type: ignore[arg-type]
    del view
    taken = [buffers.take(MiB) for _ in range(3)]
    assert address in map(id, taken)


def test_whatever_is_taken_and_let_go_what_is_held_never_changes() -> None:
    # Given a pool that is used at random
    random, buffers = Random(3), ReadBuffers()
    held: list[tuple[memoryview, int]] = []
    addresses = set()
    for number in range(2_000):
        # When buffers are taken, filled with a mark, and parts of them held or let go
        mark = number % 251
        data = buffers.take(random.choice((LEAST_BYTES, 200 * KiB, 300 * KiB, 310 * KiB)))
        data[:] = bytes([mark]) * len(data)
        addresses.add(id(data))
        at = random.randrange(len(data) - 16)
        held.append((memoryview(data)[at : at + 16], mark))
        del data
        while len(held) > random.randrange(1, 40):
            held.pop(random.randrange(len(held)))

        # Then each part that is held has its own mark
        assert all(bytes(view) == bytes([mark]) * 16 for view, mark in held)
    assert len(addresses) < 200, "most were used again"


def test_small_ones_are_not_of_the_pool_and_are_clear() -> None:
    assert ReadBuffers().take(100) == bytes(100)


def test_what_is_idle_is_let_go_of_but_for_a_little() -> None:
    # Given many buffers in use
    buffers = ReadBuffers()
    held = [buffers.take(MiB) for _ in range(2 * MAX_BUFFERS)]
    assert len(buffers._buffers) == MAX_BUFFERS

    # When all are let go, and one of another size is taken
    held.clear()
    gc.collect()
    buffers.take(300 * KiB)

    # Then little more is kept than may be
    assert sum(len(one) for one in buffers._buffers) < KEPT_BYTES + MiB


async def test_what_is_idle_is_let_go_of_though_no_more_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given many buffers in use, of which the pool has been told
    monkeypatch.setattr(read_buffers, "TRIM_S", 0.001)
    buffers = ReadBuffers()
    held = [buffers.take(MiB) for _ in range(3 * TRIMMED_AT_ONCE)]
    part = memoryview(held[5])[7:9]
    buffers.trim_later()
    await asyncio.sleep(0.02)
    assert len(buffers._buffers) == len(held), "none is idle"

    # When all are let go but a part of one
    del held[:]

    # Then soon nothing is kept but what is in use
    async with asyncio.timeout(20):
        while len(buffers._buffers) > 1:
            await asyncio.sleep(0.001)
    assert buffers._buffers[0] is part.obj
    buffers.close()


async def test_who_reads_much_at_once_may_keep_more_as_long_as_it_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a pool that may keep more, all of which is let go now and then
    monkeypatch.setattr(read_buffers, "TRIM_S", 0.001)
    buffers = ReadBuffers(40 * MiB)
    kept: set[int] = set()
    for _ in range(4):
        held = [buffers.take(MiB) for _ in range(32)]
        kept = set(map(id, held))
        del held[:]

    # When it is used again, then nothing is taken anew
    assert {id(buffers.take(MiB))} <= kept
    assert len(buffers._buffers) == 32

    # When it is not, then it keeps nothing, as others do
    buffers.trim_later()
    async with asyncio.timeout(20):
        while buffers._buffers:
            await asyncio.sleep(0.001)


def test_a_pool_goes_on_after_memory_was_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given a buffer that there was no memory for
    def refuse(*_: object) -> int:
        raise MemoryError

    buffers = ReadBuffers()
    with monkeypatch.context() as patched:
        patched.setattr(read_buffers, "resize", refuse)
        with pytest.raises(MemoryError):
            buffers.take(MiB)

    # When there is some again, then it is given
    assert len(buffers.take(MiB)) == MiB
