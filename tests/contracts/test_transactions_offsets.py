"""What storage/metadata/transactions.py promises, asked of every store: offsets of groups."""

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from protocol.ids import Partition
from storage.metadata.groups import CommittedOffset, CommittedOffsets
from storage.metadata.transactions import (
    TransactionOffsets,
    TransactionOffsetsOutcome,
    TransactionState,
    Verdict,
)
from tests.contracts.metadata_stores import KINDS
from tests.contracts.transaction_stores import Transactions, bumped, named, open_transactions

DONE = TransactionOffsetsOutcome(verdict=Verdict.DONE)


@pytest.fixture(params=KINDS)
async def transactions(request: pytest.FixtureRequest) -> AsyncIterator[Transactions]:
    """Each store in turn, empty."""
    async with open_transactions(request.param) as opened:
        yield opened


async def test_offsets_are_committed_with_their_transaction(transactions: Transactions) -> None:
    # Given a group with an offset, and a transaction with offsets for it
    first, second, third = await transactions.partitions(3)
    epoch = await transactions.groups.take("g")
    await transactions.groups.commit("g", epoch, {first: 1})
    producer = await transactions.producer()
    noted = CommittedOffset(offset=2**62, leader_epoch=3, metadata="seen \x00 by é\x01")
    write = TransactionOffsets(
        producer=producer,
        group_id="g",
        owner_epoch=epoch,
        joins=True,
        offsets={first: CommittedOffset(offset=5), second: noted},
    )
    assert await transactions.store.write_transaction_offsets(write) == DONE

    # Then they are known to be coming, but are not there
    store = transactions.store
    assert await store.committed_offsets("g", None) == CommittedOffsets(
        offsets={first: CommittedOffset(offset=1)}, unstable=frozenset({first, second})
    )
    assert await store.committed_offsets("g", [second, third]) == CommittedOffsets(
        offsets={}, unstable=frozenset({second})
    )
    assert await transactions.unstable("other") == frozenset()

    # And once it is committed, they are
    await transactions.goes_on(producer)
    assert await store.committed_offsets("g", None) == CommittedOffsets(
        offsets={first: CommittedOffset(offset=5), second: noted}, unstable=frozenset()
    )


async def test_offsets_are_forgotten_with_their_transaction(transactions: Transactions) -> None:
    # Given a group with an offset, and a transaction with offsets for it
    first, second = await transactions.partitions(2)
    epoch = await transactions.groups.take("g")
    await transactions.groups.commit("g", epoch, {first: 1})
    producer = await transactions.producer()
    await transactions.write_offsets(producer, "g", epoch, {first: 5, second: 6})

    # When it is aborted, then the group is as before
    following = await transactions.goes_on(producer, committed=False)
    assert await transactions.groups.committed("g") == {first: 1}
    assert await transactions.unstable("g") == frozenset()

    # And the next transaction does not bring them back
    await transactions.write_offsets(following, "g", epoch, {second: 7})
    await transactions.goes_on(following)
    assert await transactions.groups.committed("g") == {first: 1, second: 7}


async def test_a_group_has_to_be_added_or_adds_itself(transactions: Transactions) -> None:
    # Given a producer of before KIP-890, and one after it
    (partition,) = await transactions.partitions(1)
    epoch = await transactions.groups.take("g")
    older, newer = await transactions.producer("older"), await transactions.producer("newer")

    # When neither has added the group, then only the newer one may write offsets
    outcome = await transactions.write_offsets(older, "g", epoch, {partition: 1}, joins=False)
    assert outcome.verdict is Verdict.INVALID_STATE
    assert (await transactions.record("older")).state is TransactionState.EMPTY
    assert await transactions.write_offsets(newer, "g", epoch, {partition: 2}) == DONE
    record = await transactions.record("newer")
    assert (record.state, list(record.partitions)) == (TransactionState.ONGOING, [])
    assert record.started_ms > 0

    # And it has added it by that
    outcome = await transactions.write_offsets(newer, "g", epoch, {partition: 3}, joins=False)
    assert outcome == DONE

    # And the older one adds it for one transaction; another group is no help
    await transactions.store.add_to_transaction(older, [], ["h"])
    outcome = await transactions.write_offsets(older, "g", epoch, {partition: 1}, joins=False)
    assert outcome.verdict is Verdict.INVALID_STATE
    await transactions.store.add_to_transaction(older, [], ["g"])
    outcome = await transactions.write_offsets(older, "g", epoch, {partition: 1}, joins=False)
    assert outcome == DONE
    await transactions.end(older, bumps=False)
    outcome = await transactions.write_offsets(older, "g", epoch, {partition: 9}, joins=False)
    assert outcome.verdict is Verdict.INVALID_STATE
    assert await transactions.groups.committed("g") == {partition: 1}


async def test_offsets_need_the_current_producer(transactions: Transactions) -> None:
    # Given a producer, another that has not its id, and one of the epoch before
    (partition,) = await transactions.partitions(1)
    epoch = await transactions.groups.take("g")
    producer = await transactions.producer()
    current = await transactions.producer()
    strange = named(producer, current.producer_id + 100, 0)

    # When they write offsets of a group, be it ours or not, then they hear first who they are
    for owner_epoch in (epoch, epoch + 1):
        for joins in (True, False):
            for asker, verdict in (
                (producer, Verdict.FENCED),
                (bumped(current), Verdict.FENCED),
                (strange, Verdict.UNKNOWN_ID),
            ):
                outcome = await transactions.write_offsets(
                    asker, "g", owner_epoch, {partition: 1}, joins=joins
                )
                assert outcome.verdict is verdict

    # Then nothing has begun
    assert (await transactions.record()).state is TransactionState.EMPTY
    assert await transactions.unstable("g") == frozenset()


async def test_offsets_need_the_current_owner_of_the_group(transactions: Transactions) -> None:
    # Given a group that somebody else has taken, one that is gone, and a transaction with both
    (partition,) = await transactions.partitions(1)
    old, gone = await transactions.groups.take("g"), await transactions.groups.take("gone")
    new = await transactions.groups.take("g")
    await transactions.store.delete_groups({"gone": gone})
    producer = await transactions.producer()

    # When the old owners write, then they are fenced, and nothing has begun
    for group_id, epoch in (("g", old), ("gone", gone)):
        outcome = await transactions.write_offsets(producer, group_id, epoch, {partition: 1})
        assert outcome.verdict is Verdict.GROUP_FENCED
    nowhere = await transactions.write_offsets(producer, "never", -1, {})
    assert nowhere.verdict is Verdict.GROUP_FENCED
    assert (await transactions.record()).state is TransactionState.EMPTY
    await transactions.store.add_to_transaction(producer, [], ["g", "gone"])
    for group_id, epoch in (("g", old), ("gone", gone)):
        outcome = await transactions.write_offsets(
            producer, group_id, epoch, {partition: 1}, joins=False
        )
        assert outcome.verdict is Verdict.GROUP_FENCED

    # Then only what the new one writes is committed
    assert await transactions.write_offsets(producer, "g", new, {partition: 2}) == DONE
    await transactions.end(producer)
    assert await transactions.groups.committed("g") == {partition: 2}
    assert await transactions.groups.ids() == ["g"]


async def test_a_new_owner_does_not_stop_the_transaction(transactions: Transactions) -> None:
    # Given a transaction with offsets of a group that somebody else takes afterwards
    (partition,) = await transactions.partitions(1)
    epoch = await transactions.groups.take("g")
    producer = await transactions.producer()
    await transactions.write_offsets(producer, "g", epoch, {partition: 2})
    await transactions.groups.take("g")

    # When it is committed, then they are there
    await transactions.end(producer)
    assert await transactions.groups.committed("g") == {partition: 2}


async def test_unknown_partitions_are_told_and_not_written(transactions: Transactions) -> None:
    # Given a group and a topic of one partition
    (partition,) = await transactions.partitions(1)
    beyond, nowhere = Partition(partition.topic_id, 1), Partition(uuid4(), 0)
    epoch = await transactions.groups.take("g")
    producer = await transactions.producer()

    # When offsets of other partitions are written, too
    outcome = await transactions.write_offsets(
        producer, "g", epoch, {nowhere: 1, partition: 2, beyond: 3}
    )

    # Then those are told, and the others committed with the transaction
    assert outcome == TransactionOffsetsOutcome(
        verdict=Verdict.DONE, unknown=frozenset({nowhere, beyond})
    )
    assert await transactions.unstable("g") == {partition}
    await transactions.end(producer)
    assert await transactions.groups.committed("g") == {partition: 2}


async def test_each_unknown_partition_of_many_is_told(
    transactions: Transactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given topics, and a store that writes few offsets with one statement
    monkeypatch.setattr("storage.metadata.metadata_postgres_transactions.MAX_OFFSETS", 5)
    topics = [await transactions.partitions(2) for _ in range(4)]
    known = [partition for topic in topics for partition in topic]
    unknown = [Partition(uuid4(), 0), Partition(known[0].topic_id, 2), Partition(uuid4(), 1)]
    unknown += [Partition(known[-1].topic_id, -1)]
    epoch = await transactions.groups.take("g")
    producer = await transactions.producer()

    # When offsets of all of them are written, those that exist among those that do not
    mixed = known[:3] + unknown[:2] + known[3:6] + unknown[2:] + known[6:]
    offsets = {partition: at for at, partition in enumerate(mixed)}
    outcome = await transactions.write_offsets(producer, "g", epoch, offsets)

    # Then what does not exist is told, and what does is committed with the transaction
    assert outcome == TransactionOffsetsOutcome(verdict=Verdict.DONE, unknown=frozenset(unknown))
    await transactions.end(producer)
    assert await transactions.groups.committed("g") == {each: offsets[each] for each in known}


async def test_the_last_offsets_of_a_transaction_count(transactions: Transactions) -> None:
    # Given a transaction with offsets of two groups, some of them written twice
    first, second = await transactions.partitions(2)
    epochs = {group_id: await transactions.groups.take(group_id) for group_id in ("g", "h")}
    producer = await transactions.producer()
    await transactions.write_offsets(producer, "g", epochs["g"], {first: 9, second: 2})
    await transactions.write_offsets(producer, "h", epochs["h"], {first: 3})
    await transactions.write_offsets(producer, "g", epochs["g"], {first: 1})

    # When it is committed, and the answer is lost, then all are there
    for _ in range(2):
        assert (await transactions.end(producer)).verdict is Verdict.DONE
    assert await transactions.groups.committed("g") == {first: 1, second: 2}
    assert await transactions.groups.committed("h") == {first: 3}

    # And a repeated end does not bring back what has been overtaken since
    await transactions.groups.commit("g", epochs["g"], {first: 77})
    assert (await transactions.end(producer)).verdict is Verdict.DONE
    assert await transactions.groups.committed("g") == {first: 77, second: 2}


async def test_what_was_written_last_counts_not_what_is_committed_last(
    transactions: Transactions,
) -> None:
    # Given transactions with offsets, and one that was committed after some of them were written
    first, second, third = await transactions.partitions(3)
    epoch = await transactions.groups.take("g")
    await transactions.groups.commit("g", epoch, {first: 1, third: 1})
    one, two = await transactions.producer("one"), await transactions.producer("two")
    await transactions.write_offsets(one, "g", epoch, {first: 5, second: 5, third: 5})
    await transactions.write_offsets(two, "g", epoch, {second: 6, third: 6})
    await transactions.groups.commit("g", epoch, {first: 100})  # as a tool resets it
    await transactions.write_offsets(one, "g", epoch, {third: 7})

    # When they end the other way round
    await transactions.end(two)
    await transactions.end(one)

    # Then the last words are those that were written last
    assert await transactions.groups.committed("g") == {first: 100, second: 6, third: 7}
    assert await transactions.unstable("g") == frozenset()


async def test_transactions_of_one_group_do_not_disturb_each_other(
    transactions: Transactions,
) -> None:
    # Given two transactions with offsets of the same group
    first, second = await transactions.partitions(2)
    epoch = await transactions.groups.take("g")
    one, two = await transactions.producer("one"), await transactions.producer("two")
    await transactions.write_offsets(one, "g", epoch, {first: 1, second: 1})
    await transactions.write_offsets(two, "g", epoch, {first: 2})

    # When one is aborted, then the other still has its own to come
    await transactions.end(two, committed=False)
    assert await transactions.unstable("g") == {first, second}
    await transactions.end(one)
    assert await transactions.unstable("g") == frozenset()
    assert await transactions.groups.committed("g") == {first: 1, second: 1}
