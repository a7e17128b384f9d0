"""Many producers and groups at once: no call stops another, and each transaction is whole."""

import asyncio
from collections.abc import AsyncIterator
from random import Random

import pytest

from protocol.ids import Partition
from storage.aborted_transaction import AbortedTransaction
from storage.metadata.port import TransactionUse
from storage.metadata.transactions import Producer, Verdict
from tests.contracts.metadata_stores import KINDS, a_batch, commit, whole_log
from tests.contracts.transaction_stores import Transactions, open_transactions

PRODUCERS = 6
ROUNDS = 8


@pytest.fixture(params=KINDS)
async def transactions(request: pytest.FixtureRequest) -> AsyncIterator[Transactions]:
    """Each store in turn, empty."""
    async with open_transactions(request.param) as opened:
        yield opened


async def write_everywhere(
    transactions: Transactions, producer: Producer, partitions: list[Partition]
) -> list[int]:
    """Commit an object with a batch for each partition; return the base offsets."""
    batches = [
        a_batch(
            partition,
            100 * number,
            producer=producer.producer_id,
            owner=producer.transactional_id,
            epoch=producer.producer_epoch,
            sequence=0,
            transaction=TransactionUse.ADDS,
        )
        for number, partition in enumerate(sorted(partitions))
    ]
    outcomes = await commit(transactions.store, batches)
    assert [outcome.refusal for outcome in outcomes] == [None] * len(batches)
    return [outcome.base_offset for outcome in outcomes]


async def test_transactions_at_the_same_time_are_whole(transactions: Transactions) -> None:
    # Given producers that share partitions and groups, and take them in any order
    partitions = await transactions.partitions(4)
    epochs = {group_id: await transactions.groups.take(group_id) for group_id in ("g", "h")}
    aborted: dict[Partition, list[AbortedTransaction]] = {each: [] for each in partitions}

    async def produce(number: int) -> None:
        random = Random(number)
        producer = await transactions.producer(f"producer-{number}")
        for _ in range(ROUNDS):
            mine = random.sample(partitions, random.randint(1, 4))
            starts = dict(
                zip(sorted(mine), await write_everywhere(transactions, producer, mine), strict=True)
            )
            added = random.sample(partitions, 2)
            await transactions.store.add_to_transaction(producer, added, random.sample("gh", 2))
            for group_id in random.sample(sorted(epochs), 2):
                await transactions.write_offsets(
                    producer, group_id, epochs[group_id], dict.fromkeys(added, number)
                )
            committed = random.random() < 0.5
            outcome = await transactions.end(producer, committed=committed)
            assert outcome.verdict is Verdict.DONE
            assert set(outcome.markers) == set(mine) | set(added)
            for partition, first_offset in starts.items():
                marker = outcome.markers[partition].high_watermark - 1
                if not committed:
                    aborted[partition].append(
                        AbortedTransaction(
                            producer_id=producer.producer_id,
                            first_offset=first_offset,
                            last_offset=marker,
                        )
                    )
            assert outcome.producer is not None
            producer = outcome.producer

    # When all go on at the same time
    await asyncio.gather(*(produce(number) for number in range(PRODUCERS)))

    # Then nothing is open, and each aborted transaction is known by what its producer was told
    offsets = await transactions.store.partition_offsets(partitions)
    for partition in partitions:
        await whole_log(transactions.store, partition)
        expected = sorted(aborted[partition], key=lambda each: each.last_offset)
        found = await transactions.store.aborted_transactions(
            partition, 0, 2**62, 1000, aborted_count=0
        )
        assert found.transactions == expected
        assert offsets[partition].aborted_count == len(expected)
        assert offsets[partition].last_stable_offset == offsets[partition].high_watermark
    for group_id in epochs:
        assert await transactions.unstable(group_id) == frozenset()


async def test_a_transaction_ends_once_whoever_ends_it(transactions: Transactions) -> None:
    # Given a transaction with records and offsets
    first, second = await transactions.partitions(2)
    epoch = await transactions.groups.take("g")
    producer = await transactions.producer()
    await write_everywhere(transactions, producer, [first, second])
    await transactions.write_offsets(producer, "g", epoch, {first: 7})

    # When it is committed, aborted, and fenced at the same time, each several times
    outcomes = await asyncio.gather(
        *(
            transactions.end(producer, committed=committed, fences=fences)
            for _ in range(3)
            for committed, fences in ((True, False), (False, False), (False, True))
        )
    )

    # Then one of them has done it, and all is as that one said
    ended = [outcome for outcome in outcomes if outcome.markers]
    assert len(ended) == 1
    committed = (await transactions.record()).state == "CompleteCommit"
    for partition in (first, second):
        assert await transactions.stands(partition) == (11, 11, 0 if committed else 1)
    assert await transactions.groups.committed("g") == ({first: 7} if committed else {})
    assert {outcome.producer for outcome in outcomes if outcome.verdict is Verdict.DONE} == {
        ended[0].producer
    }


async def test_topics_and_groups_may_go_meanwhile(transactions: Transactions) -> None:
    # Given producers that write to a topic that stays and to topics that come and go
    (kept,) = await transactions.partitions(1)
    going = [(await transactions.partitions(2)) for _ in range(ROUNDS)]
    epoch = await transactions.groups.take("g")

    async def produce(number: int) -> None:
        producer = await transactions.producer(f"producer-{number}")
        for partitions in going:
            for partition in (kept, *partitions):
                await transactions.send(producer, partition)
            await transactions.write_offsets(
                producer, "g", epoch, dict.fromkeys(partitions, number)
            )
            outcome = await transactions.end(producer, committed=number % 2 == 0)
            assert outcome.verdict is Verdict.DONE
            assert outcome.producer is not None
            producer = outcome.producer

    async def delete() -> None:
        for partitions in going:
            group_epoch = await transactions.groups.take("h")
            await transactions.groups.commit("h", group_epoch, {partitions[1]: 1, kept: 1})
            await transactions.store.delete_topic(partitions[0].topic_id)
            await transactions.store.delete_groups({"h": group_epoch})

    # When topics are deleted at the same time
    await asyncio.gather(delete(), *(produce(number) for number in range(PRODUCERS)))

    # Then no call has stopped another, and what stays is whole
    high_watermark, last_stable_offset, aborted_count = await transactions.stands(kept)
    assert high_watermark == last_stable_offset == PRODUCERS * ROUNDS * 11
    assert aborted_count == PRODUCERS // 2 * ROUNDS
    assert await transactions.unstable("g") == frozenset()
    assert await transactions.groups.committed("g") == {}
