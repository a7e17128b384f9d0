"""Objects tell which offsets the batches of earlier ones have."""

from collections.abc import Sequence

from storage.config import WriterConfig
from storage.wal_index import NOT_APPENDED, parse_index, parse_index_length
from tests.storage.test_writer import Bench, running

EACH_ALONE = WriterConfig(flush_bytes=1)


async def told(bench: Bench) -> list[list[tuple[int, int, Sequence[int]]]]:
    """Return of each object, in their order, what it tells: (partition, sequence, offsets)."""
    indexes = {}
    async for one in bench.objects.list("wal/"):
        data = await bench.objects.get(one.path, 0, one.size)
        index = parse_index(data[-parse_index_length(data) :])
        indexes[index.sequence] = index
    return [
        [(partition, sequence, offsets) for _, partition, sequence, offsets in one.places]
        for _, one in sorted(indexes.items())
    ]


async def test_the_next_object_tells_and_the_next_one_of_the_partition_tells_again() -> None:
    async with running() as bench:
        # Given an object of two partitions, one of which others come between
        first = [bench.append(partition) for partition in (0, 0, 1)]
        for future in first:
            await future
        for partition in (0, 1, 1, 1):
            await bench.append(partition)

        # Then the next object tells of both, and the next one of the other partition once more
        assert await told(bench) == [
            [],
            [(0, 0, (0, 1)), (1, 0, (0,))],
            [(0, 1, (2,)), (1, 0, (0,))],
            [(1, 2, (1,))],
            [(1, 3, (2,))],
        ]


async def test_what_is_on_its_way_is_told_when_its_offsets_are_known() -> None:
    async with running(EACH_ALONE) as bench:
        bench.objects.gate.clear()
        futures = [bench.append() for _ in range(3)]
        bench.objects.gate.set()
        for future in futures:
            await future
        await bench.append()
        assert (await told(bench))[3] == [(0, 0, (0,)), (0, 1, (1,)), (0, 2, (2,))]


async def test_what_was_not_appended_is_told_as_well() -> None:
    async with running() as bench:
        # Given a batch that came again, in an object with one that was appended
        for sequence in (0, 1):
            await bench.append(sequence=sequence)
        again, following = bench.append(sequence=1), bench.append(sequence=2)
        assert (await again).duplicate
        await following

        # When all of an object is refused, then what it told is told again
        await bench.append(sequence=9)
        await bench.append(sequence=3)
        await bench.append(sequence=4)
        assert (await told(bench))[3:] == [
            [(0, 2, (NOT_APPENDED, 2))],
            [(0, 2, (NOT_APPENDED, 2)), (0, 3, (NOT_APPENDED,))],
            [(0, 4, (3,))],
        ]


async def test_what_is_refused_again_and_again_does_not_pile_up() -> None:
    async with running() as bench:
        await bench.append(sequence=0)
        for _ in range(5):
            await bench.append(sequence=9)
        (*_, last) = await told(bench)
        assert last == [(0, 0, (0,)), (0, 4, (NOT_APPENDED,))]


async def test_nothing_is_told_of_a_topic_that_was_deleted() -> None:
    async with running() as bench:
        await bench.append(0)
        bench.logs[0].remove()
        await bench.append(1)
        assert await told(bench) == [[], []]
