"""The builder where bytes are damaged, answers are lost, and others change the same rows."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from storage.errors import ObjectConflict, ObjectStoreUnavailable, ObjectUnreadable
from storage.metadata.segments import SegmentSwap
from storage.metadata.tasks import TaskKind
from storage.objects.port import Buffer, Owned
from storage.upkeep.builder import Builder
from storage.upkeep.task_lease import LEASE_MS
from tests.storage.builder_model import HOUR_MS, POLICY
from tests.storage.builder_world import World
from tests.support.fakes.objects import MemoryStore


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with World.open() as opened:
        yield opened


async def test_damaged_bytes_stay_as_they_are_and_are_told_once(world: World) -> None:
    # Given a row whose bytes are not what they were, behind a good one
    await world.produce(b"one")
    await world.produce(b"two")
    rows = await world.rows()
    content = world.objects._objects[rows[1].path]
    world.objects._objects[rows[1].path] = content[:70] + b"\xff" + content[71:]
    world.config = replace(world.config, segment_rows=2)
    builder = world.builder()

    # When two rounds come to it
    with capture_logs() as logs:
        for _ in range(2):
            world.now_ms += HOUR_MS
            await builder.plan()
            assert await builder.work_once()
            await builder.plan()
            assert not await builder.work_once()  # not again at once

    # Then what is before it is built, that row has not changed, and the log has one line
    built, left = await world.rows()
    assert (built.end_offset, bool(built.index_length)) == (1, True)
    assert left == rows[1]
    assert builder.counts.unreadable == 2
    (line,) = [line for line in logs if line["log_level"] == "error"]
    assert (line["topic"], line["partition"], line["offset"]) == ("orders", 0, 2)

    # And once the bytes are back, it is built
    world.objects._objects[rows[1].path] = content
    assert await builder.build(world.partition) is not None
    await world.check()


async def build_what_is_due(world: World, builder: Builder) -> None:
    world.now_ms += HOUR_MS
    await builder.plan()
    while await builder.work_once():
        pass


async def lose(world: World, *paths: str) -> dict[str, bytes]:
    """Take objects away; return what they had."""
    world.lost |= {*paths}
    taken = {path: world.objects._objects[path] for path in paths}
    await world.objects.delete(paths)
    return taken


async def test_a_lost_object_of_several_partitions_is_stepped_over() -> None:
    # Given two objects in a row that are lost, with records of three partitions
    async with World.open(3) as world:
        for number in range(10):
            await asyncio.gather(*(world.produce(b"%d" % number, index=at) for at in range(3)))
        lost = [row.path for row in (await world.rows())[4:6]]
        for each in world.partitions:
            assert [row.path for row in (await world.rows(each))[4:6]] == lost
        taken = await lose(world, *lost)

        # When all is built that is due, and what is written later
        builder = world.builder()
        with capture_logs() as logs:
            await build_what_is_due(world, builder)
            for at in range(3):
                await world.produce(b"later", index=at)
            await build_what_is_due(world, builder)

        # Then only those rows are left as they were, which is told once of each
        for each in world.partitions:
            rows = await world.rows(each)
            assert [row.path for row in rows if not row.index_length] == lost
            assert [bool(row.index_length) for row in rows] == [True, False, False, True, True]
        errors = [line for line in logs if line["log_level"] == "error"]
        assert len(errors) == builder.counts.unreadable == 6

        # And no other object of the writer's is kept; and once the bytes are back, all is read
        await world.sweep()
        assert {path for path in await world.stored() if path.startswith("wal/")} == set()
        for path, content in taken.items():
            await world.objects.put(path, [content])
        await world.check()


async def test_an_object_that_is_not_given_out_is_stepped_over_and_kept(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given three rows, the object of the second of which is archived
    for value in (b"one", b"two", b"three"):
        await world.produce(value)
    archived = (await world.rows())[1]
    world.lost.add(archived.path)
    get = world.objects.get

    async def get_others(path: str, start: int, length: int) -> Owned:
        if path == archived.path:
            raise ObjectUnreadable(path)
        return await get(path, start, length)

    # When all is built that is due, and swept
    with monkeypatch.context() as patched:
        patched.setattr(world.objects, "get", get_others)
        await build_what_is_due(world, world.builder())
        await world.sweep()

    # Then what is around it is built, and it is there as it was when it is given out again
    rows = await world.rows()
    assert [bool(row.index_length) for row in rows] == [True, False, True]
    assert rows[1] == archived
    await world.check()


async def test_nothing_is_stepped_over_while_no_object_behind_it_can_be_read(world: World) -> None:
    # Given a store in which nothing is left, and a marker, which lies in the index
    await world.produce_in_transaction("t1", b"one")
    await world.end_transaction("t1", committed=True)
    await world.produce(b"two")
    before = await world.rows()
    taken = await lose(world, *world.objects._objects)

    # When it is due, then all stays as it is, and the partition rests
    builder = world.builder()
    await build_what_is_due(world, builder)
    assert await world.rows() == before
    (unbuilt,), _ = await world.metadata.unbuilt_ranges(None, 9, 9)
    assert (unbuilt.built_offset, unbuilt.rows) == (0, 3)
    await builder.plan()
    assert not await builder.work_once()

    # And when the store is back, all of it is built
    for path, content in taken.items():
        await world.objects.put(path, [content])
    await build_what_is_due(world, builder)
    assert [bool(row.index_length) for row in await world.rows()] == [True]
    await world.check()


async def test_a_marker_between_lost_rows_is_built(world: World) -> None:
    # Given rows that are lost on both sides of a marker, and a good one
    await world.produce_in_transaction("t1", b"one")
    await world.end_transaction("t1", committed=False)
    await world.produce(b"two")
    await world.produce(b"three")
    first, _, second, _ = await world.rows()
    await lose(world, first.path, second.path)

    # When they are built, then the marker and the good one are segments
    await build_what_is_due(world, world.builder())
    rows = await world.rows()
    assert [bool(row.index_length) for row in rows] == [False, True, False, True]
    assert (rows[0], rows[2]) == (first, second)


async def test_lost_rows_that_fill_segments_of_their_own_are_stepped_over(world: World) -> None:
    # Given rows that are as large as segments may be, of which the first two are lost
    world.policy = replace(POLICY, segment_bytes=1)
    for _ in range(4):
        await world.produce(b"one")
    first, second, *_ = await world.rows()
    await lose(world, first.path, second.path)

    # When they are built, then the others are
    await build_what_is_due(world, world.builder())
    assert [bool(row.index_length) for row in await world.rows()] == [False, False, True, True]


class FlippingStore(MemoryStore):
    """Gives one object damaged for the first few times; it never was."""

    def __init__(self, objects: MemoryStore, path: str, times: int) -> None:
        super().__init__()
        self._objects, self._modified_ms = objects._objects, objects._modified_ms
        self._path, self._times = path, times

    async def get(self, path: str, start: int, length: int) -> bytearray:
        data = await super().get(path, start, length)
        if path == self._path and self._times:
            self._times -= 1
            data[-1] ^= 0xFF
        return data


@pytest.mark.parametrize(("number", "times"), [(0, 1), (2, 2), (3, 3)])
async def test_what_is_read_wrong_once_is_not_stepped_over(
    world: World, number: int, times: int
) -> None:
    # Given rows of which one comes damaged, as often as it is read with those around it
    for value in range(6):
        await world.produce(b"%d" % value)
    rows = await world.rows()
    await lose(world, *(row.path for row in rows[2:3] if number == 3))
    store = FlippingStore(world.objects, rows[number].path, times)

    # When all is built that is due
    await build_what_is_due(world, world.builder(objects=store))

    # Then that row is, too
    left = [row.path for row in await world.rows() if not row.index_length]
    assert rows[number].path not in left
    assert left == sorted(world.lost)


async def test_a_damaged_segment_is_not_in_the_way_of_what_follows(world: World) -> None:
    # Given a small segment that is damaged, and new rows behind it
    builder = world.builder()
    await world.produce(b"old")
    await builder.build(world.partition)
    (old,) = await world.rows()
    content = world.objects._objects[old.path]
    world.objects._objects[old.path] = content[:100] + b"\xff" + content[101:]
    await world.produce(b"new", b"new")

    # When these are built, then that segment is left as it is
    assert await builder.build(world.partition) is not None
    assert [row.path == old.path for row in await world.rows()] == [True, False]
    assert builder.counts.unreadable == 1


class ConflictingStore(MemoryStore):
    """Has something else where the first put wants to go, and loses the answers of two others."""

    def __init__(self) -> None:
        super().__init__()
        self.puts: list[str] = []

    async def put(self, path: str, parts: Sequence[Buffer]) -> None:
        self.puts.append(path)
        if len(self.puts) == 1:
            raise ObjectConflict(path)
        await super().put(path, parts)
        if len(self.puts) < 4:
            raise ObjectStoreUnavailable("the answer was lost")


async def test_a_path_that_is_taken_is_left_and_a_lost_answer_asked_for_again(
    world: World,
) -> None:
    # Given a store as above
    await world.produce(b"one")
    store = ConflictingStore()
    store._objects = world.objects._objects
    store._modified_ms = world.objects._modified_ms

    # When a segment is built
    result = await world.builder(objects=store).build(world.partition)

    # Then it lies under the second path, to which all tries after the first went
    assert result is not None
    assert store.puts[1:] == [result.path] * 3
    assert store.puts[0] != result.path
    await world.check()
    await world.sweep()
    assert await world.stored() == await world.named() == {result.path}


async def test_rows_that_change_meanwhile_are_read_again(world: World) -> None:
    # Given records that are deleted just before the swap, and whose rows are purged
    await world.produce(b"one")
    await world.produce(b"two")
    inner = world.metadata.replace_segments

    async def delete_first(swap: SegmentSwap) -> bool:
        await world.metadata.delete_records({world.partition: 2})
        await world.metadata.purge(1000)
        return await inner(swap)

    world.metadata.replace_segments = delete_first  # type: ignore[method-assign]

    # When they are built, then what is left is
    builder = world.builder()
    result = await builder.build(world.partition)
    assert result is not None
    assert (result.start_offset, result.end_offset) == (2, 3)
    assert builder.counts.lost == 1


async def test_two_builders_of_one_partition_make_one_segment(world: World) -> None:
    for number in range(10):
        await world.produce(b"%d" % number)
    await asyncio.gather(*(world.builder().build(world.partition) for _ in range(3)))
    assert len(await world.rows()) == 1
    await world.check()
    await world.sweep()
    assert await world.stored() == await world.named()


async def test_without_an_answer_the_task_waits_for_its_lease(world: World) -> None:
    # Given a task whose objects cannot be read at present
    class Away(MemoryStore):
        async def get(self, path: str, start: int, length: int) -> bytearray:
            raise ObjectStoreUnavailable("away")

    await world.produce(b"one")
    await world.metadata.add_tasks(TaskKind.BUILD, [world.partition])
    world.now_ms += HOUR_MS

    # When a worker fails, then nobody has it until the lease is over
    with pytest.raises(ObjectStoreUnavailable):
        await world.builder(objects=Away()).work_once()
    assert not await world.builder().work_once()
    world.now_ms += LEASE_MS
    assert await world.builder().work_once()
    assert [bool(row.index_length) for row in await world.rows()] == [True]


async def test_a_bug_in_one_partition_is_not_in_the_way_of_the_others() -> None:
    # Given two partitions, and what ends in a bug whenever the first one's bytes are read
    async with World.open(2) as world:
        await world.produce(b"bad", index=0)
        await world.produce(b"good", index=1)
        first, second = world.partitions
        (bad,) = await world.rows(first)

        class Strange(MemoryStore):
            async def get(self, path: str, start: int, length: int) -> bytearray:
                if path == bad.path:
                    raise KeyError("bug")
                return await world.objects.get(path, start, length)

            async def put(self, path: str, parts: Sequence[Buffer]) -> None:
                await world.objects.put(path, parts)

        builder = world.builder(objects=Strange())
        world.now_ms += HOUR_MS

        # When a worker does all there is to do
        with capture_logs() as logs:
            await builder.plan()
            while await builder.work_once():
                pass

        # Then the other is built, and the bug is told and counted
        assert await world.rows(first) == [bad]
        assert [bool(row.index_length) for row in await world.rows(second)] == [True]
        assert builder.counts.failed == 1
        (line,) = [line for line in logs if line["log_level"] == "error"]
        assert (line["partition"], line["exc_info"]) == (0, True)

        # And the first one is left alone, but not for ever
        await builder.plan()
        assert not await builder.work_once()
        world.now_ms += HOUR_MS
        await builder.plan()
        assert await builder.work_once()
        assert builder.counts.failed == 2


async def test_a_store_that_never_answers_is_given_up(world: World) -> None:
    # Given a store to which nothing can be written, while minutes pass
    class Full(MemoryStore):
        async def put(self, path: str, parts: Sequence[Buffer]) -> None:
            world.now_ms += 120_000
            raise ObjectStoreUnavailable("full")

    await world.produce(b"one")
    store = Full()
    store._objects = world.objects._objects
    store._modified_ms = world.objects._modified_ms

    # Then the builder gives up, and the log is as it was
    with pytest.raises(ObjectStoreUnavailable):
        await world.builder(objects=store).build(world.partition)
    await world.check()
