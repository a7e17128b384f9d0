"""Who is charged for what the object store is asked; counting loses nothing and is bounded."""

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Final
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.errors import MetadataUnavailable, ObjectConflict, ObjectMissing
from storage.metadata.usage import (
    BROKER_CLIENT,
    HOUR_MS,
    NO_TOPIC,
    OTHER,
    UsageCounts,
    UsageRow,
    hour_of,
)
from storage.objects.objects_counted import LIST_PAGE, CountedStore
from storage.usage_counter import MAX_CLIENTS, Share, UsageCounter, charged, producing
from tests.support.fakes.metadata import MemoryMetadata
from tests.support.fakes.objects import MemoryStore

ORDERS: Final = UUID(int=1)
CLICKS: Final = UUID(int=2)
NOBODY: Final = (NO_TOPIC, BROKER_CLIENT)

Usage = dict[tuple[UUID, str], UsageCounts]


class Rows(MemoryMetadata):
    """Keeps rows as they come. Attributes: away is how many of the next writes get no answer."""

    def __init__(self) -> None:
        super().__init__(Random(0))
        self.rows: list[UsageRow] = []
        self.away = 0

    async def add_usage(self, rows: Sequence[UsageRow]) -> None:
        await asyncio.sleep(0)
        if self.away:
            self.away -= 1
            raise MetadataUnavailable("away")
        self.rows += rows


class Counting:
    """A counted store on a clock that stands still. Attributes: now_ms is what it shows."""

    def __init__(self) -> None:
        self.now_ms = hour_of(1_790_000_000_000)
        self.written = Rows()
        self.usage = UsageCounter(self.written, client_id=BROKER_CLIENT, now_ms=lambda: self.now_ms)
        self.objects = CountedStore(MemoryStore(), self.usage)

    async def counted(self) -> Usage:
        """Flush; return what was written since the last time."""
        self.written.rows.clear()
        await self.usage.flush()
        found = {(row.topic_id, row.client_id): row.counts for row in self.written.rows}
        assert len(found) == len(self.written.rows)
        return found


@pytest.fixture
def counting() -> Counting:
    return Counting()


async def test_a_put_is_shared_by_the_bytes_that_it_was_made_of(counting: Counting) -> None:
    # Given an object of 100 bytes of three clients, and an index of 20
    shares = [Share(CLICKS, "a", 25), Share(ORDERS, "a", 25), Share(ORDERS, "b", 50)]

    # When it is put
    with producing(shares):
        await counting.objects.put("wal/1", [b"x" * 100, b"i" * 20])

    # Then each has its part
    assert await counting.counted() == {
        (CLICKS, "a"): UsageCounts(puts=0.25, put_bytes=30, produced_bytes=25),
        (ORDERS, "a"): UsageCounts(puts=0.25, put_bytes=30, produced_bytes=25),
        (ORDERS, "b"): UsageCounts(puts=0.5, put_bytes=60, produced_bytes=50),
    }
    assert await counting.counted() == {}


async def test_a_put_that_finds_other_bytes_is_billed_but_produces_nothing(
    counting: Counting,
) -> None:
    await counting.objects.put("wal/1", [b"other"])
    await counting.counted()
    with producing([Share(ORDERS, "a", 4)]), pytest.raises(ObjectConflict):
        await counting.objects.put("wal/1", [b"mine"])
    assert await counting.counted() == {(ORDERS, "a"): UsageCounts(puts=1.0, put_bytes=4)}


async def test_a_put_without_batches_is_the_brokers_own(counting: Counting) -> None:
    with producing([]):
        await counting.objects.put("wal/1", [b"i" * 20])
    assert list((await counting.counted()).values()) == [UsageCounts(puts=1.0, put_bytes=20)]


async def test_gets_are_charged_to_who_began_them_also_in_tasks(counting: Counting) -> None:
    # Given an object
    await counting.objects.put("wal/1", [b"x" * 90])
    await counting.counted()

    # When tasks read it that a client's fetch of three partitions has begun
    with charged([ORDERS, CLICKS, ORDERS], "a"):
        ahead = asyncio.create_task(counting.objects.get("wal/1", 0, 90))
        missing = asyncio.create_task(counting.objects.get("wal/2", 0, 1))
    await ahead
    with pytest.raises(ObjectMissing):
        await missing

    # Then both requests are the client's, by partitions
    counted = await counting.counted()
    assert counted.keys() == {(ORDERS, "a"), (CLICKS, "a")}
    orders, clicks = counted[ORDERS, "a"], counted[CLICKS, "a"]
    assert orders.gets == pytest.approx(4 / 3)
    assert clicks.gets == pytest.approx(2 / 3)
    assert (orders.get_bytes, clicks.get_bytes) == (60, 30)


async def test_what_nobody_asked_for_is_the_process_itself(counting: Counting) -> None:
    # When a store of more than one page is filled, listed, read, emptied and listed again
    for number in range(LIST_PAGE + 1):
        await counting.objects.put(f"a/{number}", [b"x"])
    found = [one.path async for one in counting.objects.list("a/")]
    await counting.objects.get("a/0", 0, 1)
    await counting.objects.delete(found)
    assert [one async for one in counting.objects.list("a/")] == []

    # Then all of it is counted, and for no topic
    assert await counting.counted() == {
        NOBODY: UsageCounts(
            puts=LIST_PAGE + 1,
            put_bytes=LIST_PAGE + 1,
            gets=1,
            get_bytes=1,
            lists=3,
            deletes=LIST_PAGE + 1,
        )
    }


async def test_what_postgres_does_not_take_is_written_the_next_time(counting: Counting) -> None:
    # Given counts, and a Postgres that gives no answer twice
    counting.written.away = 2
    counting.usage.fetched(ORDERS, "a", 10)
    assert await counting.counted() == {}

    # When more is counted meanwhile, also while a write is under way
    flush = asyncio.create_task(counting.usage.flush())
    await asyncio.sleep(0)
    counting.usage.fetched(ORDERS, "a", 200)
    await flush
    counting.usage.fetched(ORDERS, "a", 3000)

    # Then all of it is written together
    assert await counting.counted() == {(ORDERS, "a"): UsageCounts(fetched_bytes=3210)}


async def test_a_flush_that_is_cut_off_loses_nothing(counting: Counting) -> None:
    counting.usage.fetched(ORDERS, "a", 10)
    flush = asyncio.create_task(counting.usage.flush())
    await asyncio.sleep(0)
    flush.cancel()
    await asyncio.wait([flush])
    assert await counting.counted() == {(ORDERS, "a"): UsageCounts(fetched_bytes=10)}


async def test_clients_beyond_the_limit_are_counted_together_for_an_hour(
    counting: Counting,
) -> None:
    # Given as many clients as an hour has room for, written already
    for number in range(MAX_CLIENTS):
        counting.usage.fetched(ORDERS, f"client-{number}", 1)
    assert len(await counting.counted()) == MAX_CLIENTS

    # When others come, of this topic and another, and one of the first again
    for number in range(500):
        counting.usage.fetched(ORDERS, f"late-{number}", 1)
        counting.usage.fetched(CLICKS, f"late-{number}", 2)
    counting.usage.fetched(ORDERS, "client-7", 5)

    # Then the others are one of each topic
    assert await counting.counted() == {
        (ORDERS, "client-7"): UsageCounts(fetched_bytes=5),
        (ORDERS, OTHER): UsageCounts(fetched_bytes=500),
        (CLICKS, OTHER): UsageCounts(fetched_bytes=1000),
    }

    # And when there are too many topics, the rest of them are counted together, too
    for number in range(2 * MAX_CLIENTS):
        counting.usage.fetched(UUID(int=100 + number), "late", 1)
    counted = await counting.counted()
    assert len(counted) == MAX_CLIENTS - 1
    assert sum(counts.fetched_bytes for counts in counted.values()) == 2 * MAX_CLIENTS
    assert counted[NO_TOPIC, OTHER].fetched_bytes == MAX_CLIENTS + 2

    # And the next hour has room again
    counting.now_ms += HOUR_MS
    await counting.counted()
    counting.usage.fetched(ORDERS, "late-0", 1)
    assert await counting.counted() == {(ORDERS, "late-0"): UsageCounts(fetched_bytes=1)}


async def test_rows_are_of_the_hour_in_which_they_are_written(counting: Counting) -> None:
    counting.now_ms += HOUR_MS + 5
    counting.usage.fetched(ORDERS, "a", 1)
    await counting.usage.flush()
    assert [row.hour_ms for row in counting.written.rows] == [hour_of(counting.now_ms)]


@given(
    sizes=st.lists(st.integers(1, 10**7), min_size=1, max_size=50),
    size=st.integers(0, 10**8),
)
def test_shares_add_up_to_the_whole(sizes: list[int], size: int) -> None:
    async def shared() -> Usage:
        counting = Counting()
        with producing([Share(UUID(int=at), "a", each) for at, each in enumerate(sizes, start=1)]):
            counting.usage.put(size, stored=True)
        return await counting.counted()

    counted = asyncio.run(shared())
    assert sum(counts.puts for counts in counted.values()) == pytest.approx(1.0)
    assert sum(counts.put_bytes for counts in counted.values()) == size
    assert sum(counts.produced_bytes for counts in counted.values()) == sum(sizes)
