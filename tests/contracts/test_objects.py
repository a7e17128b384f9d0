"""What storage/objects/port.py promises, asked of every object store."""

import asyncio
import random
import time

import pytest

from storage.config import MiB
from storage.errors import ObjectConflict, ObjectMissing
from storage.objects.port import Buffer, ObjectStore
from tests.contracts.object_stores import content, sizes

NOT_PATHS = ("", "/wal/1", "../1", "wal/../1", "wal/./1", "wal//1", "wal/", ".incoming/1", "a\0b")


async def test_any_range_of_an_object_can_be_read(store: ObjectStore) -> None:
    # Given an object
    stored = random.Random(1).randbytes(100_000)
    await store.put("wal/ab/1", [stored])

    # When ranges at its beginning, inside, at its end, and all of it, are read
    ranges = [(0, 1), (0, 61), (12_345, 54_321), (99_999, 1), (0, 100_000)]
    found = [await store.get("wal/ab/1", start, length) for start, length in ranges]

    # Then each has exactly those bytes, in a buffer of the caller's own
    assert list(map(bytes, found)) == [stored[start : start + length] for start, length in ranges]
    found[-1][:] = bytes(100_000)
    assert await content(store, "wal/ab/1", 100_000) == stored


async def test_an_object_is_the_concatenation_of_its_parts(store: ObjectStore) -> None:
    # Given more parts than one system call takes, of all kinds, some of them empty
    whole = random.Random(2).randbytes(200_000)
    parts: list[Buffer] = [b"", bytearray(), memoryview(b"")]
    for number, start in enumerate(range(0, len(whole), 80)):
        part = whole[start : start + 80]
        parts.append((part, bytearray(part), memoryview(whole)[start : start + 80])[number % 3])
    assert len(parts) > 2_000

    # When they are put
    await store.put("wal/parts", parts)

    # Then the object is all of them in order
    assert await content(store, "wal/parts", len(whole)) == whole
    assert await sizes(store) == {"wal/parts": len(whole)}


async def test_an_object_may_be_empty(store: ObjectStore) -> None:
    # Given an object of no bytes, put twice
    await store.put("markers/empty", [])
    await store.put("markers/empty", [b""])

    # Then it is there, nothing can be read from it, and nothing else takes its place
    assert await sizes(store) == {"markers/empty": 0}
    with pytest.raises(ObjectMissing):
        await store.get("markers/empty", 0, 1)
    with pytest.raises(ObjectConflict):
        await store.put("markers/empty", [b"x"])


async def test_a_large_object_is_stored_whole(store: ObjectStore) -> None:
    # Given 16 MiB, in parts
    stored = random.Random(3).randbytes(16 * MiB)
    halves = [memoryview(stored)[: 5 * MiB], memoryview(stored)[5 * MiB :]]

    # When they are put
    await store.put("wal/large", halves)

    # Then all of them, and ranges across the middle and up to the end, can be read
    assert await content(store, "wal/large", 16 * MiB) == stored
    for start, length in ((5 * MiB - 7, 14), (5 * MiB - 7, 2 * MiB), (MiB, MiB), (15 * MiB, MiB)):
        found = await store.get("wal/large", start, length)
        assert bytes(found) == stored[start : start + length]


async def test_a_put_of_the_same_bytes_again_succeeds(store: ObjectStore) -> None:
    # Given an object whose answer was lost
    stored = random.Random(4).randbytes(3 * MiB)
    await store.put("wal/again", [stored])

    # When it is put again, cut into other parts
    await store.put("wal/again", [stored[:1000], stored[1000:]])

    # Then it is there once
    assert await content(store, "wal/again", 3 * MiB) == stored
    assert await sizes(store) == {"wal/again": 3 * MiB}


@pytest.mark.parametrize("other", [b"other", b"short", b"longer than the one before", b""])
async def test_other_bytes_never_replace_an_object(store: ObjectStore, other: bytes) -> None:
    # Given an object
    await store.put("wal/one", [b"first"])

    # When other bytes are put under its path, then they are refused and it stays as it was
    with pytest.raises(ObjectConflict):
        await store.put("wal/one", [other])
    assert await content(store, "wal/one", 5) == b"first"


async def test_large_other_bytes_are_a_conflict_too(store: ObjectStore) -> None:
    # Given an object, larger than what a server reads before it refuses
    stored = random.Random(5).randbytes(8 * MiB)
    await store.put("wal/large", [stored])

    # When as many other bytes are put, then it is a conflict
    with pytest.raises(ObjectConflict):
        await store.put("wal/large", [stored[1:], b"x"])
    assert await content(store, "wal/large", 8 * MiB) == stored


async def test_of_racing_puts_exactly_one_wins(store: ObjectStore) -> None:
    for number in range(5):
        # Given eight writers with different bytes of the same length
        path = f"wal/race-{number}"
        rivals = [bytes([writer]) * 50_000 for writer in range(8)]

        # When all put at once
        outcomes = await asyncio.gather(
            *(store.put(path, [rival]) for rival in rivals), return_exceptions=True
        )

        # Then one is stored, whole, and all others are told
        winners = [n for n, outcome in enumerate(outcomes) if outcome is None]
        assert len(winners) == 1
        losers = [type(outcome) for outcome in outcomes if outcome is not None]
        assert losers == [ObjectConflict] * 7
        assert await content(store, path, 50_000) == rivals[winners[0]]


async def test_racing_puts_of_the_same_bytes_all_succeed(store: ObjectStore) -> None:
    # Given eight writers with the same bytes
    stored = random.Random(6).randbytes(50_000)

    # When all put at once, then none fails
    await asyncio.gather(*(store.put("wal/same", [stored]) for _ in range(8)))
    assert await content(store, "wal/same", 50_000) == stored


async def test_what_is_not_there_cannot_be_read(store: ObjectStore) -> None:
    # Given one object of 100 bytes
    await store.put("wal/ab/1", [bytes(100)])

    # When another, its folder, or bytes past its end are read, then they are missing
    for path, start, length in [
        ("wal/ab/2", 0, 1),
        ("other/1", 0, 1),
        ("wal/ab", 0, 1),
        ("wal/ab/1/2", 0, 1),
        ("wal/ab/1", 0, 101),
        ("wal/ab/1", 99, 2),
        ("wal/ab/1", 100, 1),
        ("wal/ab/1", 5_000, 10),
    ]:
        with pytest.raises(ObjectMissing):
            await store.get(path, start, length)


async def test_deleting_many_leaves_the_others(store: ObjectStore) -> None:
    # Given some objects
    paths = [f"wal/{number:02}/object" for number in range(20)]
    for path in paths:
        await store.put(path, [path.encode()])

    # When most of them are deleted, together with many that never existed, and again
    doomed = [
        f"wal/{'x' * 258}/1",  # longer than what a file system takes
        *paths[3:],
        *(f"wal/{number}/none" for number in range(1_200)),
        "wal",
        "wal/00/object/1",
    ]
    await store.delete(doomed)
    await store.delete(doomed)
    await store.delete([])

    # Then the others are left, and a path that is free again can be used for other bytes
    assert await sizes(store) == dict.fromkeys(paths[:3], len(paths[0]))
    await store.put(paths[5], [b"new"])
    assert await content(store, paths[5], 3) == b"new"


async def test_a_listing_has_all_that_begins_with_the_prefix(store: ObjectStore) -> None:
    # Given objects in several folders
    paths = [
        "topics/orders/partitions/0/segments/00000000-00000009.seg",
        "topics/orders/partitions/1/segments/00000000-00000009.seg",
        "topics/orders-2/partitions/0/segments/00000000-00000009.seg",
        "topics/.hidden #%41+&/partitions/0/ünï.seg",
        "wal/ab/1",
    ]
    for path in paths:
        await store.put(path, [path.encode()])
    every = {path: len(path.encode()) for path in paths}

    # When prefixes are listed that end at a slash, inside a name, at a whole path, or nowhere
    prefixes = [
        "",
        "topics/",
        "topics/ord",
        "topics/orders/",
        "top",
        "wal/ab/1",
        "topics/.",
        "x",
        "x/",
    ]

    # Then each listing has exactly the objects whose paths begin so, with their sizes
    for prefix in prefixes:
        expected = {path: size for path, size in every.items() if path.startswith(prefix)}
        assert await sizes(store, prefix) == expected
    for path, size in every.items():
        assert await content(store, path, size) == path.encode()


async def test_a_listing_tells_when_an_object_was_stored(store: ObjectStore) -> None:
    # Given an object, stored twice, and another one
    before_ms = time.time_ns() // 1_000_000
    await store.put("a/1", [b"bytes"])
    (first,) = [found async for found in store.list("a/")]
    await store.put("a/1", [b"bytes"])
    await store.put("b/1", [b"bytes"])

    # Then its time is that of the first put, to the second: a store may tell no more
    (again,) = [found async for found in store.list("a/")]
    assert again == first
    (other,) = [found async for found in store.list("b/")]
    assert before_ms - 2000 <= first.modified_ms <= other.modified_ms
    assert other.modified_ms <= time.time_ns() // 1_000_000 + 2000


async def test_a_cancelled_put_is_stored_whole_or_not_at_all(store: ObjectStore) -> None:
    stored = random.Random(7).randbytes(4 * MiB)
    for turns in (0, 1, 2, 3, 5, 8, 13, 21, 34):
        # Given a put that has been under way for some turns of the event loop
        path = f"wal/cancelled-{turns}"
        buffer = bytearray(stored)
        put = asyncio.create_task(store.put(path, [buffer]))
        for _ in range(turns):
            await asyncio.sleep(0)

        # When it is cancelled, and its buffer used for something else
        put.cancel()
        await asyncio.wait([put])
        buffer[:] = bytes(4 * MiB)

        # Then the object is not there, or it is whole; and it can be put again
        try:
            assert await content(store, path, 4 * MiB) == stored
        except ObjectMissing:
            assert (await sizes(store, path)).get(path, 4 * MiB) == 4 * MiB
        await store.put(path, [stored])
        assert await content(store, path, 4 * MiB) == stored


@pytest.mark.parametrize("path", NOT_PATHS)
async def test_paths_that_lead_elsewhere_are_refused(store: ObjectStore, path: str) -> None:
    # Given a path that is not plain and relative
    # When it is used, then it is refused, and nothing is stored
    with pytest.raises(ValueError, match="not an object path"):
        await store.put(path, [b"x"])
    with pytest.raises(ValueError, match="not an object path"):
        await store.get(path, 0, 1)
    with pytest.raises(ValueError, match="not an object path"):
        await store.delete(["wal/fine", path])
    assert await sizes(store) == {}


@pytest.mark.parametrize("prefix", ["/", "/etc", "../", "wal/../x", ".", ".incoming/", "wal//"])
async def test_prefixes_that_lead_elsewhere_are_refused(store: ObjectStore, prefix: str) -> None:
    with pytest.raises(ValueError, match="object path"):
        await sizes(store, prefix)
