"""What storage/metadata/transactions.py promises, asked of every metadata store: groups that go."""

from collections.abc import AsyncIterator

import pytest

from storage.metadata.transactions import Verdict
from tests.contracts.metadata_stores import KINDS
from tests.contracts.transaction_stores import Transactions, open_transactions

DAY_MS = 24 * 60 * 60 * 1000


@pytest.fixture(params=KINDS)
async def transactions(request: pytest.FixtureRequest) -> AsyncIterator[Transactions]:
    """Each store in turn, empty."""
    async with open_transactions(request.param) as opened:
        yield opened


async def test_offsets_to_come_go_with_their_group(transactions: Transactions) -> None:
    # Given a transaction with offsets of a group that is deleted, and made again
    (partition,) = await transactions.partitions(1)
    epoch = await transactions.groups.take("g")
    producer = await transactions.producer()
    await transactions.write_offsets(producer, "g", epoch, {partition: 1})
    assert await transactions.store.delete_groups({"g": epoch}) == {"g": True}
    assert await transactions.unstable("g") == frozenset()
    await transactions.groups.take("g")
    assert await transactions.unstable("g") == frozenset()

    # When it is committed, then the group has nothing of it
    assert (await transactions.end(producer)).verdict is Verdict.DONE
    assert await transactions.groups.committed("g") == {}


async def test_a_group_that_is_gone_does_not_stop_the_transaction(
    transactions: Transactions,
) -> None:
    # Given a transaction with records, and offsets of two groups, one of which is deleted
    (partition,) = await transactions.partitions(1)
    epochs = {group_id: await transactions.groups.take(group_id) for group_id in ("g", "h")}
    producer = await transactions.producer()
    await transactions.send(producer, partition)
    for group_id, epoch in epochs.items():
        await transactions.write_offsets(producer, group_id, epoch, {partition: 1})
    await transactions.store.delete_groups({"g": epochs["g"]})

    # When it is committed, then the other group has its offset
    await transactions.goes_on(producer)
    assert await transactions.groups.ids() == ["h"]
    assert await transactions.groups.committed("h") == {partition: 1}


async def test_offsets_to_come_can_be_forgotten(transactions: Transactions) -> None:
    # Given a transaction with offsets of two partitions
    first, second = await transactions.partitions(2)
    epoch = await transactions.groups.take("g")
    await transactions.groups.commit("g", epoch, {first: 9})
    producer = await transactions.producer()
    await transactions.write_offsets(producer, "g", epoch, {first: 1, second: 2})

    # When one is forgotten by who owns the group
    assert not await transactions.store.delete_offsets("g", epoch + 1, [first])
    assert await transactions.unstable("g") == {first, second}
    assert await transactions.store.delete_offsets("g", epoch, [first])

    # Then only the other one comes
    assert await transactions.unstable("g") == {second}
    await transactions.end(producer)
    assert await transactions.groups.committed("g") == {second: 2}


async def test_offsets_to_come_go_with_their_topic(transactions: Transactions) -> None:
    # Given a transaction with offsets of two topics, one of which is deleted
    (doomed,) = await transactions.partitions(1)
    (kept,) = await transactions.partitions(1)
    epoch = await transactions.groups.take("g")
    producer = await transactions.producer()
    await transactions.write_offsets(producer, "g", epoch, {doomed: 1, kept: 2})
    await transactions.store.delete_topic(doomed.topic_id)

    # Then only the other one comes
    assert await transactions.unstable("g") == {kept}
    outcome = await transactions.write_offsets(producer, "g", epoch, {doomed: 3})
    assert outcome.unknown == {doomed}
    await transactions.end(producer)
    assert await transactions.groups.committed("g") == {kept: 2}


async def test_a_group_with_offsets_to_come_does_not_expire(transactions: Transactions) -> None:
    # Given groups that nobody has touched for long, one with an offset to come
    (partition,) = await transactions.partitions(1)
    epoch = await transactions.groups.take("g")
    await transactions.groups.take("nothing")
    producer = await transactions.producer()
    await transactions.write_offsets(producer, "g", epoch, {partition: 1})
    await transactions.groups.passes(8 * DAY_MS)

    # When groups expire, then it stays
    assert await transactions.store.expire_offsets(7 * DAY_MS) == 1
    assert await transactions.groups.ids() == ["g"]

    # And has its offset when the transaction is committed, for as long as any written with it
    await transactions.write_offsets(producer, "g", epoch, {partition: 2})
    await transactions.end(producer)
    assert await transactions.store.expire_offsets(7 * DAY_MS) == 0
    assert await transactions.groups.committed("g") == {partition: 2}
    await transactions.groups.passes(8 * DAY_MS)
    assert await transactions.store.expire_offsets(7 * DAY_MS) == 2
    assert await transactions.groups.ids() == []


async def test_an_offset_that_gets_a_newer_one_does_not_expire(transactions: Transactions) -> None:
    # Given an old offset of a topic that nobody reads, and a transaction that has a newer one
    (partition,) = await transactions.partitions(1)
    epoch = await transactions.groups.take("g")
    await transactions.groups.save("g", epoch)
    await transactions.groups.commit("g", epoch, {partition: 1})
    producer = await transactions.producer()
    await transactions.write_offsets(producer, "g", epoch, {partition: 2})
    await transactions.groups.passes(8 * DAY_MS)

    # When what the group has left expires, then it stays, until the transaction is aborted
    assert await transactions.store.expire_left_topics("g", epoch, [], 7 * DAY_MS) == 0
    await transactions.end(producer, committed=False)
    assert await transactions.store.expire_left_topics("g", epoch, [], 7 * DAY_MS) == 1


async def test_a_group_expires_when_its_offsets_did_not_come(transactions: Transactions) -> None:
    # Given a group with nothing but an offset to come
    (partition,) = await transactions.partitions(1)
    epoch = await transactions.groups.take("g")
    producer = await transactions.producer()
    await transactions.write_offsets(producer, "g", epoch, {partition: 1})
    await transactions.groups.passes(8 * DAY_MS)

    # When the transaction is aborted, then nothing keeps the group
    await transactions.end(producer, committed=False)
    assert await transactions.store.expire_offsets(7 * DAY_MS) == 1
    assert await transactions.groups.ids() == []
