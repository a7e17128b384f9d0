"""Recovery from a store that gives bad answers: only what stays bad is unreadable."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable

import pytest

from storage import bad_answers
from storage.errors import ObjectMissing, ObjectUnreadable
from storage.objects.port import Owned
from tests.storage.stored_log import StoredLog, stored_log
from tests.storage.test_recover_changed import records_of
from tests.storage.test_recover_store import recover, sweep

Answer = Callable[[str, Owned], Owned]


def is_damaged(_: str, data: Owned) -> Owned:
    return bytearray(bytes(data[:-1]) + bytes([data[-1] ^ 1]))


def is_damaged_at_the_start(_: str, data: Owned) -> Owned:
    """Of an object of a writer, this is a batch; of a segment's index, what tells of blocks."""
    return bytearray(bytes(data[:65]) + bytes([data[65] ^ 1]) + bytes(data[66:]))


def is_missing(path: str, _: Owned) -> Owned:
    raise ObjectMissing(path)


def is_archived(path: str, _: Owned) -> Owned:
    raise ObjectUnreadable(path)


@pytest.fixture
async def log(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[StoredLog]:
    """Two segments, and two objects of the writer behind them; nobody waits between two tries."""
    monkeypatch.setattr(bad_answers, "AGAIN_AFTER_S", (0.0, 0.0))
    async with stored_log() as opened:
        for number in range(2):
            await opened.write(b"%300d" % number, b"more")
            await opened.build()
        await opened.write(b"a", b"b")
        await opened.write(b"c", b"d")
        await sweep(opened)
        yield opened


def answer_badly(
    log: StoredLog, monkeypatch: pytest.MonkeyPatch, answer: Answer, times: int
) -> None:
    """Let the first reads of each object go wrong."""
    get, tried = log.objects.get, Counter[str]()

    async def answer_at_first(path: str, start: int, length: int) -> Owned:
        data = await get(path, start, length)
        if not path.startswith(("topics/", "wal/")):
            return data
        tried[path] += 1
        return answer(path, data) if tried[path] <= times else data

    monkeypatch.setattr(log.objects, "get", answer_at_first)


@pytest.mark.parametrize("answer", [is_damaged, is_damaged_at_the_start, is_missing, is_archived])
async def test_a_bad_answer_is_not_the_last_one(
    log: StoredLog, monkeypatch: pytest.MonkeyPatch, answer: Answer
) -> None:
    # Given a store of which the first two reads of each object go wrong
    before = await records_of(log)
    answer_badly(log, monkeypatch, answer, 2)

    # When the index is recovered, then nothing is missing
    report = await recover(log)
    assert report.unreadable == []
    assert (report.segments, report.uploads) == (2, 2)
    assert await records_of(log) == before


async def test_what_stays_bad_is_told_once(log: StoredLog) -> None:
    # Given an object of the writer of which one batch of two stays damaged
    (*_, first, last) = await log.rows()
    content = bytearray(log.content(first.path))
    content[first.start + 65] ^= 1
    log.spoil(first.path, bytes(content))

    # When the index is recovered, then that is unreadable, and all else is there
    report = await recover(log)
    assert [first.path in line for line in report.unreadable] == [True]
    assert (await log.rows())[-1] == last


async def test_what_is_around_an_object_that_is_not_given_out_is_recovered(
    log: StoredLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given an object of the writer that is archived
    (*_, first, last) = await log.rows()
    get = log.objects.get

    async def archived(path: str, start: int, length: int) -> Owned:
        data = await get(path, start, length)
        return is_archived(path, data) if path == first.path else data

    monkeypatch.setattr(log.objects, "get", archived)

    # When the index is recovered, then that is told, and all else is there
    report = await recover(log)
    assert [first.path in line for line in report.unreadable] == [True]
    assert (await log.rows())[-1].path == last.path


async def test_of_two_copies_the_whole_one_is_taken(
    log: StoredLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given an upload that was tried again, of which one copy is damaged, and the other comes late
    before = await records_of(log)
    whole = (await log.rows())[-1].path
    content = bytearray(log.content(whole))
    content[65] ^= 1
    await log.objects.put("wal/00/damaged", [content])
    get, is_damaged_read = log.objects.get, asyncio.Event()

    async def answer_late(path: str, start: int, length: int) -> Owned:
        if path == whole:
            await is_damaged_read.wait()
        data = await get(path, start, length)
        if path == "wal/00/damaged":
            asyncio.get_running_loop().call_later(0.05, is_damaged_read.set)
        return data

    monkeypatch.setattr(log.objects, "get", answer_late)

    # When the index is recovered, then nothing is missing
    report = await recover(log)
    assert (report.unreadable, report.uploads, report.repeated) == ([], 2, 1)
    assert await records_of(log) == before
