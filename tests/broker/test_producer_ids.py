"""Producer ids ascend in the order in which they are given, and none is given twice."""

import asyncio
from random import Random

import pytest

from broker.transactions.producer_ids import ProducerIds
from storage.errors import MetadataUnavailable
from tests.support.fakes.metadata import MemoryMetadata


class CountedMetadata(MemoryMetadata):
    """Takes its time, counts how often it is asked, and can be away."""

    def __init__(self) -> None:
        super().__init__(Random(1))
        self.asked: list[int] = []
        self.is_away = False

    async def allocate_producer_ids(self, count: int) -> int:
        self.asked.append(count)
        await asyncio.sleep(0.01)
        if self.is_away:
            raise MetadataUnavailable("away")
        return await super().allocate_producer_ids(count)


async def test_an_id_is_higher_than_all_that_were_given_before() -> None:
    # Given two brokers that give out ids by turns
    metadata = CountedMetadata()
    one, other = ProducerIds(metadata), ProducerIds(metadata)
    taken = [await ids.take() for ids in (one, one, other, one, other)]
    assert taken == sorted(set(taken))


async def test_who_asks_at_the_same_time_shares_a_question() -> None:
    # When many ask at once
    metadata = CountedMetadata()
    ids = ProducerIds(metadata)
    taken = await asyncio.gather(*(ids.take() for _ in range(1000)))

    # Then each has an id of its own, one question was for all of them, none is left over
    assert len(set(taken)) == 1000
    assert metadata.asked == [1000]
    assert await ids.take() == max(taken) + 1


async def test_who_goes_away_or_meets_an_error_keeps_nobody_else_from_an_id() -> None:
    # Given some that ask, of which one goes away meanwhile
    metadata = CountedMetadata()
    ids = ProducerIds(metadata)
    asking = [asyncio.create_task(ids.take()) for _ in range(3)]
    await asyncio.sleep(0)
    asking[1].cancel()
    taken = await asyncio.gather(*asking, return_exceptions=True)
    assert [taken[0], taken[2]] == [0, 2]

    # When Postgres is away, then who asks is told so; and when it is back, ids go on
    assert await ids.take() == 3
    metadata.is_away = True
    with pytest.raises(MetadataUnavailable):
        await ids.take()
    metadata.is_away = False
    assert await ids.take() == 4


async def test_who_waits_for_a_question_that_fails_waits_for_no_other() -> None:
    # Given a question that is under way while Postgres is away, and many who come after it
    metadata = CountedMetadata()
    metadata.is_away = True
    ids = ProducerIds(metadata)
    asking = [asyncio.create_task(ids.take())]
    while not metadata.asked:
        await asyncio.sleep(0)
    asking += [asyncio.create_task(ids.take()) for _ in range(20)]

    # Then one more question fails, and all of them are told
    taken = await asyncio.gather(*asking, return_exceptions=True)
    assert {type(one) for one in taken} == {MetadataUnavailable}
    assert metadata.asked == [1, 20]


async def test_an_id_of_one_who_went_away_is_not_given_out_later() -> None:
    # Given some that ask, of which the last goes away while its id is on its way
    metadata = CountedMetadata()
    ids, other = ProducerIds(metadata), ProducerIds(metadata)
    asking = [asyncio.create_task(ids.take()) for _ in range(3)]
    while metadata.asked != [3]:
        await asyncio.sleep(0)
    asking[2].cancel()
    await asyncio.wait(asking)

    # When another broker gives out an id, then the next one here is higher
    given = await other.take()
    assert await ids.take() > given


async def test_what_was_given_out_is_not_given_again_by_a_database_that_went_back() -> None:
    # Given ids of which some are given out, and a standby that has not heard of most of them
    metadata = CountedMetadata()
    ids = ProducerIds(metadata)
    given = [await ids.take() for _ in range(10)]
    standby = CountedMetadata()
    assert await standby.allocate_producer_ids(3) == given[0]
    ids._metadata = standby

    # When it takes over, then all that are given out from then on are new
    later = await asyncio.gather(*(ids.take() for _ in range(5)))
    later += [await ids.take() for _ in range(5)]
    assert sorted(later) == later
    assert not set(later) & set(given)
    assert await standby.allocate_producer_ids(1) > max(later)
