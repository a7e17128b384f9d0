"""The builder where bytes are damaged, answers are lost, and others change the same rows."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from storage.errors import ObjectConflict, ObjectStoreUnavailable
from storage.objects import Buffer
from storage.objects_memory import MemoryStore
from storage.segments import SegmentSwap, TaskKind
from storage.task_lease import LEASE_MS
from tests.storage.builder_model import HOUR_MS
from tests.storage.builder_world import World


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
