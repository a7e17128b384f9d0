"""The index of aborted transactions: a reader hears of all that it has to skip, however it asks."""

import asyncio
from dataclasses import dataclass, field
from random import Random
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.ids import Partition
from storage.aborted import AbortedIndex
from storage.aborted_indexes import EMPTY_SIZE, AbortedIndexes
from storage.aborted_transaction import AbortedPage, AbortedTransaction
from storage.errors import MetadataUnavailable, OffsetOutOfRange
from tests.support.fakes.metadata import MemoryMetadata

PARTITION = Partition(UUID(int=1), 0)


def overlapping(known: list[AbortedTransaction], start: int, end: int) -> list[AbortedTransaction]:
    found = [one for one in known if one.last_offset >= start and one.first_offset < end]
    return sorted(found, key=lambda one: one.first_offset)


@dataclass
class AbortedStore(MemoryMetadata):
    """A store of nothing but aborted transactions.

    Attributes:
        queries: (start offset, end offset, limit) of each question.
        gate: questions wait until it is set.
        away: it does not answer.
        log_start_offset: where the log begins by now; what ended before it is forgotten.
    """

    known: list[AbortedTransaction] = field(default_factory=list)
    queries: list[tuple[int, int, int]] = field(default_factory=list)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    away: bool = False
    log_start_offset: int = 0

    def __post_init__(self) -> None:
        super().__init__(Random(0))
        self.gate.set()

    async def aborted_transactions(
        self,
        partition: Partition,
        start_offset: int,
        end_offset: int,
        limit: int,
        *,
        aborted_count: int,
    ) -> AbortedPage:
        assert partition.topic_id == PARTITION.topic_id
        self.queries.append((start_offset, end_offset, limit))
        await self.gate.wait()
        if self.away:
            raise MetadataUnavailable("away")
        begin = max(start_offset, self.log_start_offset)
        found = [
            one for one in self.known if one.last_offset >= begin and one.first_offset < end_offset
        ]
        return AbortedPage(log_start_offset=self.log_start_offset, transactions=found[:limit])

    def abort(self, first_offset: int, last_offset: int) -> None:
        self.known.append(
            AbortedTransaction(
                producer_id=len(self.known), first_offset=first_offset, last_offset=last_offset
            )
        )


async def test_nothing_is_asked_twice() -> None:
    # Given a partition with two aborted transactions
    store = AbortedStore()
    store.abort(0, 9)
    store.abort(5, 14)
    index = AbortedIndex(store, PARTITION)

    # When readers ask again and again
    for start in range(20):
        found = await index.overlapping(start, start + 1, stable_offset=20, aborted_count=2)
        assert found == overlapping(store.known, start, start + 1)

    # Then the store was asked once, and once more when there is another one, for what is new
    assert len(store.queries) == 1
    store.abort(20, 25)
    assert await index.overlapping(0, 30, stable_offset=30, aborted_count=3) == store.known
    assert [start for start, *_ in store.queries] == [0, 15]


async def test_who_reads_at_the_end_loads_no_history() -> None:
    # Given a partition with thousands of aborted transactions, and one more at the end
    store = AbortedStore()
    for number in range(1999):
        store.abort(10 * number, 10 * number + 9)
    store.abort(20_000, 20_009)
    index = AbortedIndex(store, PARTITION)

    # When somebody reads there, then nothing before that is asked for, or kept
    found = await index.overlapping(20_005, 20_010, stable_offset=20_010, aborted_count=2000)
    assert found == store.known[-1:]
    assert [start for start, *_ in store.queries] == [20_005]
    assert len(index) == 1

    # When somebody else reads all of it, then it is loaded once
    for start in range(0, 20_000, 100):
        found = await index.overlapping(start, start + 10, stable_offset=20_010, aborted_count=2000)
        assert found == overlapping(store.known, start, start + 10)
    assert [start for start, *_ in store.queries] == [20_005, 0]


async def test_an_old_reader_among_few_is_told_that_the_log_begins_later() -> None:
    # Given an index that begins where its first reader did
    store = AbortedStore()
    store.abort(0, 9)
    store.abort(10, 19)
    index = AbortedIndex(store, PARTITION)
    await index.overlapping(15, 20, stable_offset=20, aborted_count=2)

    # When the log has come to begin behind one who reads before that, then he is told so
    store.log_start_offset = 10
    for _ in range(2):
        with pytest.raises(OffsetOutOfRange):
            await index.overlapping(5, 20, stable_offset=20, aborted_count=2)
    assert await index.overlapping(10, 20, stable_offset=20, aborted_count=2) == store.known[1:]


async def test_the_indexes_of_many_partitions_are_bounded() -> None:
    # Given many partitions with a thousand aborted transactions each
    store = AbortedStore()
    for number in range(1000):
        store.abort(10 * number, 10 * number + 9)
    indexes = AbortedIndexes(store, max_size=50_000)

    async def read(index: int) -> list[AbortedTransaction]:
        partition = Partition(PARTITION.topic_id, index)
        return await indexes.overlapping(partition, 0, 15, stable_offset=10_000, aborted_count=1000)

    # When all of them are read, one of them again and again
    for index in range(200):
        assert await read(index) == await read(0) == store.known[:2]

        # Then few are kept: that one, and those that were read last
        assert sum(len(kept.index) for kept in indexes._kept.values()) <= 50_000
    assert len(store.queries) == 200
    assert list(indexes._kept)[-1] == Partition(PARTITION.topic_id, 0)
    assert len(indexes._kept) == 49


async def test_an_index_that_is_let_go_of_still_answers_who_waits_for_it() -> None:
    # Given a reader that waits for an index
    store = AbortedStore()
    store.abort(0, 9)
    store.gate.clear()
    indexes = AbortedIndexes(store, max_size=2 * EMPTY_SIZE)
    first, second, third = (Partition(PARTITION.topic_id, index) for index in range(3))

    async def read(partition: Partition) -> list[AbortedTransaction]:
        return await indexes.overlapping(partition, 0, 10, stable_offset=10, aborted_count=1)

    early = asyncio.create_task(read(first))
    await asyncio.sleep(0)

    # When others take its place
    others = [asyncio.create_task(read(one)) for one in (second, third)]
    await asyncio.sleep(0)
    assert list(indexes._kept) == [second, third]
    store.gate.set()

    # Then all have their answers, as has who comes later, and the sum is right
    assert await asyncio.gather(early, *others, read(first)) == [store.known] * 4
    sizes = [EMPTY_SIZE + len(kept.index) for kept in indexes._kept.values()]
    assert indexes._size == sum(sizes) <= 2 * EMPTY_SIZE


async def test_who_reads_before_the_log_start_is_told_so() -> None:
    # Given an index of two aborted transactions, and two more that it has not heard of
    store = AbortedStore()
    store.abort(0, 9)
    store.abort(10, 19)
    index = AbortedIndex(store, PARTITION)
    known = list(store.known)
    assert await index.overlapping(0, 20, stable_offset=20, aborted_count=2) == known
    store.abort(20, 29)
    store.abort(30, 39)

    # When the log comes to begin behind one of these, then what it had heard of is of no use before
    store.log_start_offset = 30
    for start in (0, 15, 29):
        with pytest.raises(OffsetOutOfRange):
            await index.overlapping(start, 40, stable_offset=40, aborted_count=4)
    assert await index.overlapping(30, 40, stable_offset=40, aborted_count=4) == store.known[3:]

    # And without an index it is the same
    for max_kept in (1, 100):
        index = AbortedIndex(store, PARTITION, max_kept=max_kept)
        with pytest.raises(OffsetOutOfRange):
            await index.overlapping(29, 40, stable_offset=40, aborted_count=4)
        assert await index.overlapping(30, 40, stable_offset=40, aborted_count=4) == store.known[3:]


async def test_readers_of_one_snapshot_share_a_query() -> None:
    store = AbortedStore()
    store.abort(0, 9)
    store.gate.clear()
    index = AbortedIndex(store, PARTITION)
    readers = [
        asyncio.create_task(index.overlapping(0, 10, stable_offset=10, aborted_count=1))
        for _ in range(10)
    ]
    await asyncio.sleep(0)

    # When the one that asks for all of them gives up
    readers[0].cancel()
    await asyncio.wait([readers[0]])
    store.gate.set()

    # Then the others have their answer
    assert await asyncio.gather(*readers[1:]) == [store.known] * 9
    assert len(store.queries) == 2


async def test_a_query_on_the_way_is_no_answer_for_a_later_snapshot() -> None:
    # Given a query that was answered in the database, but the answer is on its way
    store = AbortedStore()
    store.abort(0, 9)
    store.gate.clear()
    index = AbortedIndex(store, PARTITION)
    early = asyncio.create_task(index.overlapping(0, 10, stable_offset=10, aborted_count=1))
    await asyncio.sleep(0)

    # When a reader with a later snapshot comes
    late = asyncio.create_task(index.overlapping(0, 20, stable_offset=20, aborted_count=2))
    await asyncio.sleep(0)
    store.gate.set()
    await early
    store.abort(10, 19)

    # Then it asks after its snapshot was taken
    assert await late == store.known


async def test_all_who_wait_hear_that_the_store_is_away() -> None:
    store = AbortedStore()
    store.abort(0, 9)
    store.gate.clear()
    store.away = True
    index = AbortedIndex(store, PARTITION)
    readers = [
        asyncio.create_task(index.overlapping(0, 10, stable_offset=10, aborted_count=1))
        for _ in range(10)
    ]
    await asyncio.sleep(0)
    store.gate.set()
    results = await asyncio.gather(*readers, return_exceptions=True)
    assert [type(one) for one in results] == [MetadataUnavailable] * 10
    assert len(store.queries) == 1

    # When it is back, they get what they asked for
    store.away = False
    assert await index.overlapping(0, 10, stable_offset=10, aborted_count=1) == store.known


async def test_an_old_reader_among_too_many_asks_for_its_own_range() -> None:
    # Given more aborted transactions than are kept
    store = AbortedStore()
    for number in range(100):
        store.abort(10 * number, 10 * number + 9)
    index = AbortedIndex(store, PARTITION, max_kept=10)

    # When a reader walks through all of it
    for start in range(0, 1000, 5):
        found = await index.overlapping(start, start + 5, stable_offset=1000, aborted_count=100)
        assert [one.first_offset for one in found] == [start // 10 * 10]

    # Then whole loads were tried a few times only, and at the end one was kept
    loads = [start for start, end, _ in store.queries if end > 1000]
    assert len(loads) < 10
    assert not [start for start, *_ in store.queries if start > 950]
    assert len(index._entries) <= 10


async def test_what_was_kept_and_is_not_any_more_is_asked_for() -> None:
    # Given an index that has grown beyond what is kept
    store = AbortedStore()
    index = AbortedIndex(store, PARTITION, max_kept=4)
    for number in range(9):
        store.abort(10 * number, 10 * number + 9)
        stable, count = 10 * number + 10, number + 1
        await index.overlapping(stable - 1, stable, stable_offset=stable, aborted_count=count)

    # Then every reader hears what it has to skip, and only old ones cost a query
    before = len(store.queries)
    for start in range(90):
        found = await index.overlapping(start, start + 1, stable_offset=90, aborted_count=9)
        assert found == overlapping(store.known, start, start + 1)
    assert 0 < len(store.queries) - before < 70


@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["begin", "end", "read", "read", "read late"]),
            st.integers(0, 3),
            st.integers(0, 60),
            st.integers(1, 30),
        ),
        max_size=60,
    ),
    max_kept=st.integers(1, 6),
)
def test_all_that_overlap_and_end_behind_the_start_are_told(
    steps: list[tuple[str, int, int, int]], max_kept: int
) -> None:
    asyncio.run(_walk(steps, max_kept))


async def _walk(steps: list[tuple[str, int, int, int]], max_kept: int) -> None:
    # Given transactions that begin and are aborted side by side, and snapshots of the partition
    store = AbortedStore()
    index = AbortedIndex(store, PARTITION, max_kept=max_kept)
    opened: dict[int, int] = {}
    end_offset = 0
    snapshots = [(0, 0)]
    for step, producer, chosen, length in steps:
        if step == "begin":
            opened.setdefault(producer, end_offset)
            end_offset += length
        elif step == "end" and producer in opened:
            store.abort(opened.pop(producer), end_offset)
            end_offset += 1
        stable = min(opened.values(), default=end_offset)
        snapshots.append((stable, len(store.known)))
        if not step.startswith("read"):
            continue

        # When a reader asks for any range before the last stable offset of a snapshot it has seen
        stable, count = snapshots[-1 if step == "read" else chosen % len(snapshots)]
        if count == 0 or stable == 0:
            continue
        start = chosen % stable
        end = min(start + length, stable)
        found = await index.overlapping(start, end, stable_offset=stable, aborted_count=count)

        # Then it hears of exactly those that overlap it, in the order of their first offsets
        assert found == overlapping(store.known, start, end)


def test_a_kept_index_knows_where_to_stop() -> None:
    """A long transaction is found behind many short ones that ended before it."""
    store = AbortedStore()
    for number in range(50):
        store.abort(100 + number * 2, 101 + number * 2)
    store.abort(0, 300)
    index = AbortedIndex(store, PARTITION)
    found = asyncio.run(index.overlapping(0, 5, stable_offset=301, aborted_count=51))
    assert found == [store.known[-1]]


@pytest.mark.parametrize("count", [1, 5])
async def test_what_ends_during_a_load_belongs_to_nobody_yet(count: int) -> None:
    """More rows than a snapshot counts are no harm: they begin where its readers end."""
    store = AbortedStore()
    for number in range(6):
        store.abort(10 * number, 10 * number + 9)
    index = AbortedIndex(store, PARTITION, max_kept=5)
    stable = 10 * count
    found = await index.overlapping(0, stable, stable_offset=stable, aborted_count=count)
    assert found == store.known[:count]
