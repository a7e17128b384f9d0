"""When log compaction is done, in how many rounds, and what it writes."""

from dataclasses import replace
from typing import cast

import pytest
from structlog.testing import capture_logs

from storage.config import MiB
from storage.metadata.tasks import TaskKind
from storage.objects.port import ObjectStore, Owned
from tests.storage.compaction_world import POLICY, World
from tests.support.fakes.objects import MemoryStore


@pytest.mark.parametrize("capacity", [1, 3, 7])
async def test_rounds_follow_each_other_until_all_keys_had_a_place(capacity: int) -> None:
    # Given a map with room for few keys
    world = await World(key_map_bytes=21 * (capacity * 2)).open()
    for turn in range(3):
        for number in range(20):
            await world.produce([(b"%d" % number, b"%d" % turn)])
    await world.build()

    # When
    rounds = await world.compact()

    # Then
    assert rounds > 3
    assert len(await world.read()) == 20
    assert await world.latest() == {b"%d" % number: b"2" for number in range(20)}


async def test_a_group_is_written_only_if_something_changes() -> None:
    world = await World().open()
    for number in range(40):
        await world.produce([(b"%d" % number, b"v" * 100)])
    await world.build()
    await world.compact()
    before = await world.rows()
    assert len(before) > 1
    await world.produce([(b"38", b"2")])
    await world.build()
    await world.compact()
    after = await world.rows()
    assert before[0] == after[0]
    assert all(row.length <= 2_000 for row in after)


class Meanwhile:
    """A store in which the small segments at the end are merged just as the last one is read."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.is_done = False

    async def get(self, path: str, start: int, length: int) -> Owned:
        world = self._world
        rows = await world.rows()
        if path == rows[-1].path and not self.is_done:
            self.is_done = True
            await world.produce([(b"later", b"1")])
            await world.build()
            assert rows[-1] not in await world.rows()
            await world.objects.delete([path])
        return await world.objects.get(path, start, length)

    async def put(self, path: str, parts: list[bytes]) -> None:
        await self._world.objects.put(path, parts)


async def test_what_is_learned_before_the_builder_merges_the_end_is_compacted() -> None:
    # Given full segments, and a small one behind them
    world = await World().open()
    for number in range(40):
        await world.produce([(b"%d" % (number % 7), b"v" * 150)])
    await world.build()
    full = await world.rows()
    await world.produce([(b"1", b"tail")])
    await world.build()
    records = len(await world.read())

    # When the builder merges the small one while a compactor learns the keys
    store = Meanwhile(world)
    compactor = world.compactor(objects=cast("ObjectStore", store))
    await compactor.compact(world.partition)

    # Then nothing is called unreadable, and what was learned of the others is compacted
    assert store.is_done
    assert compactor.counts.unreadable == 0
    (found,) = await world.metadata.cleanable_ranges([world.partition])
    assert found.compacted_offset >= full[-2].end_offset + 1
    assert len(await world.read()) < records


@pytest.mark.parametrize("position", [0, 3 * MiB + 500])
@pytest.mark.parametrize("capacity", [3, 1_000])
async def test_what_lies_before_a_damaged_segment_is_compacted(
    capacity: int, position: int
) -> None:
    # Given segments of which the last one cannot be read, from its begin or its second part on, and
    # a map with room for few keys, or for all
    world = await World(key_map_bytes=21 * (capacity * 2)).open()
    for number in range(40):
        await world.produce([(b"%d" % (number % 7), b"v" * 150)])
    await world.build()
    await world.produce([(b"1", b"v" * 3 * MiB), (b"2", b"v")])
    await world.produce([(b"3", b"v" * 3 * MiB), (b"4", b"v")])
    world.set_segment_bytes(sum(row.length for row in (await world.rows())[-2:]))
    await world.build()
    *good, damaged = await world.rows()
    assert isinstance(world.objects, MemoryStore)
    stored = world.objects._objects
    content = stored[damaged.path]
    spoiled = bytearray(content)
    spoiled[damaged.start + 100 + position] ^= 1
    stored[damaged.path] = bytes(spoiled)

    # When it is compacted
    world.set_segment_bytes(2_000)
    compactor = world.compactor()
    await compactor.compact(world.partition)

    # Then what is before it is, all of it; and that it cannot be read is told
    (found,) = await world.metadata.cleanable_ranges([world.partition])
    assert found.compacted_offset == damaged.start_offset
    assert (await world.rows())[-1] == damaged
    assert found.dirty_since_ms == 0  # nobody knows what the damaged one says
    assert sum(row.length for row in (await world.rows())[:-1]) < sum(row.length for row in good)
    assert compactor.counts.unreadable == 1

    # And when its bytes are back, the rest follows
    stored[damaged.path] = content
    assert await world.compact()
    assert sorted(one.key for one in await world.read() if one.key) == [b"%d" % n for n in range(7)]
    (found,) = await world.metadata.cleanable_ranges([world.partition])
    assert found.dirty_since_ms == world.now_ms


class CountedBytes(MemoryStore):
    """A store that counts what is read of it."""

    size = 0

    async def get(self, path: str, start: int, length: int) -> bytearray:
        self.size += length
        return await super().get(path, start, length)


async def test_a_log_with_a_damaged_segment_is_not_read_in_vain_again_and_again() -> None:
    # Given a compacted log, a segment of which is damaged by now, and more records
    world = await World().open()
    world.objects = store = CountedBytes()
    for number in range(40):
        await world.produce([(b"%d" % number, b"v" * 100)])
    await world.build()
    await world.compact()
    rows = await world.rows()
    content = store._objects[rows[2].path]
    spoiled = bytearray(content)
    spoiled[rows[2].start + 100] ^= 1
    store._objects[rows[2].path] = bytes(spoiled)
    for number in range(40):
        await world.produce([(b"%d" % number, b"w" * 100)])
    await world.build()
    compactor = world.compactor()

    # When workers come to it again and again
    sizes: list[int] = []
    for _ in range(3):
        store.size = 0
        await compactor.plan([world.partition])
        assert await compactor.work_once()
        sizes.append(store.size)
        world.now_ms += 601_000

    # Then only the first one reads more than the segment, and what is wrong with it is counted
    row_size = rows[2].length + rows[2].index_length
    assert sizes[0] > 10 * row_size
    assert max(sizes[1:]) <= row_size
    assert compactor.counts.unreadable == 3

    # And once its bytes are back, all is compacted
    store._objects[rows[2].path] = content
    await compactor.plan([world.partition])
    assert await compactor.work_once()
    assert compactor.counts.rounds == 1
    assert await world.latest() == {b"%d" % number: b"w" * 100 for number in range(40)}
    assert len(await world.read()) == 40


async def test_compaction_goes_on_where_bytes_are_back_that_the_builder_stepped_over() -> None:
    # Given a row of the writer's that is lost, between others with the same keys
    world = await World().open()
    for number in range(3):
        await world.produce([(b"a", b"%d" % number), (b"b", b"%d" % number)])
    lost = (await world.rows())[1]
    assert isinstance(world.objects, MemoryStore)
    content = world.objects._objects.pop(lost.path)
    await world.build()

    # When it is compacted, then it ends there
    await world.compact()
    assert [bool(row.index_length) for row in await world.rows()] == [True, False, True]
    (found,) = await world.metadata.cleanable_ranges([world.partition])
    assert found.compacted_offset == lost.start_offset

    # When the bytes are back, then all of it is compacted, and in segments
    world.objects._objects[lost.path] = content
    assert await world.compact()
    assert all(row.index_length for row in await world.rows())
    assert [(one.offset, one.key) for one in await world.read()] == [(4, b"a"), (5, b"b")]


async def test_a_task_is_made_of_what_is_due_and_done_once() -> None:
    world = await World(replace(POLICY, min_cleanable_dirty_ratio=0.5)).open()
    compactor = world.compactor()

    # Nothing is built yet
    await world.produce([(b"a", b"1"), (b"a", b"2")])
    await compactor.plan([world.partition])
    assert not await compactor.work_once()

    # All is dirty
    await world.build()
    await compactor.plan([world.partition])
    assert await compactor.work_once()
    assert not await compactor.work_once()
    assert len(await world.read()) == 1

    # Too little is
    for number in range(9):
        await world.produce([(b"%d" % number, b"v" * 50)])
    await world.build()
    await compactor.plan([world.partition])
    await compactor.work_once()
    await world.produce([(b"a", b"3")])
    await world.build()
    await compactor.plan([world.partition])
    assert not await compactor.work_once()

    # But not for ever
    world.policy = replace(POLICY, min_cleanable_dirty_ratio=0.5, max_compaction_lag_ms=1_000)
    world.now_ms += 2_000
    await compactor.plan([world.partition])
    assert await compactor.work_once()
    assert (await world.metadata.backlog())[TaskKind.COMPACT] == 0


async def test_a_topic_that_is_deleted_meanwhile_ends_it_quietly() -> None:
    world = await World().open()
    await world.produce([(b"a", b"1"), (b"a", b"2")])
    await world.build()
    compactor = world.compactor()
    await compactor.plan([world.partition])
    await world.metadata.delete_topic(world.partition.topic_id)
    assert await compactor.work_once()
    assert await compactor.compact(world.partition) == 0


class Strange:
    """A store whose bytes end in a bug whenever they are read."""

    async def get(self, path: str, start: int, length: int) -> Owned:
        raise KeyError("bug")


async def test_a_bug_lets_a_partition_rest_and_the_process_go_on() -> None:
    # Given a dirty partition, and what ends in a bug when it is compacted
    world = await World().open()
    await world.produce([(b"a", b"1"), (b"a", b"2")])
    await world.build()
    compactor = world.compactor(objects=cast("ObjectStore", Strange()))

    # When a worker comes to it, then its task is done, and the bug is told and counted
    with capture_logs() as logs:
        await compactor.plan([world.partition])
        assert await compactor.work_once()
    assert compactor.counts.failed == 1
    (line,) = [line for line in logs if line["log_level"] == "error"]
    assert (line["partition"], line["exc_info"]) == (0, True)

    # And nobody comes to it again at once
    await compactor.plan([world.partition])
    assert not await compactor.work_once()
    assert await world.compact() == 1


async def test_a_tombstone_that_a_full_map_leaves_out_is_not_gone_before_it_was_met() -> None:
    # Given a batch of three tombstones that may go at once, and a map with room for one key
    world = await World(replace(POLICY, delete_retention_ms=0), key_map_bytes=1).open()
    await world.produce([(b"a", b"1"), (b"b", b"1"), (b"c", b"1")])
    deleted = await world.produce([(b"a", None), (b"b", None), (b"c", None)])
    await world.build()
    await world.metadata.set_compacted(world.partition, deleted, cleaned_ms=None)

    # When rounds end within it
    assert await world.compact() == 3

    # Then all are there until the next compaction
    assert await world.horizons() == {deleted: world.now_ms}
    assert await world.latest() == {b"a": None, b"b": None, b"c": None}
