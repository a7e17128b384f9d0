"""What storage/metadata/transactions.py promises, asked of every metadata store: epochs and
deadlines.
"""

from collections.abc import AsyncIterator
from time import monotonic

import pytest

from storage.config import INT32_MAX
from storage.metadata.transactions import LAST_EPOCH, Producer, TransactionState, Verdict
from tests.contracts.metadata_stores import KINDS, a_batch, write
from tests.contracts.transaction_stores import (
    PATIENCE_SECONDS,
    Transactions,
    bumped,
    named,
    open_transactions,
    refused,
    repeated,
)


@pytest.fixture(params=KINDS)
async def transactions(request: pytest.FixtureRequest) -> AsyncIterator[Transactions]:
    """Each store in turn, empty."""
    async with open_transactions(request.param) as opened:
        yield opened


async def test_the_last_epoch_ends_with_a_new_producer_id(transactions: Transactions) -> None:
    # Given a transaction of the last epoch, in a partition that knows the producer already
    (partition,) = await transactions.partitions(1)
    producer = await transactions.producer()
    await write(transactions.store, partition, producer.producer_id, LAST_EPOCH, 0)
    await transactions.set_epoch("t", LAST_EPOCH)
    last = named(producer, producer.producer_id, LAST_EPOCH)
    assert await transactions.send(last, partition, 10) == 10

    # When it is committed, then the producer goes on with a new id
    following = await transactions.goes_on(last)
    assert following.producer_id > producer.producer_id
    assert following.producer_epoch == 0
    assert await transactions.store.transactional_id_of(producer.producer_id) is None
    assert await transactions.store.transactional_id_of(following.producer_id) == "t"

    # And the answer can be repeated, the old producer id has written for the last time
    assert await transactions.end(last) == repeated(following)
    assert await transactions.end(last, committed=False) == refused(Verdict.INVALID_STATE)
    assert await transactions.end(last, bumps=False) == refused(Verdict.FENCED)
    assert await transactions.producer(expected=last) == following
    (state,) = (await transactions.store.producer_states([partition]))[partition]
    assert (state.producer_id, state.producer_epoch) == (producer.producer_id, LAST_EPOCH + 1)
    assert await transactions.send(last, partition) == "InvalidProducerEpoch"

    # And the new one begins anew
    assert await transactions.send(following, partition) == 21
    assert await transactions.end(last) == refused(Verdict.FENCED)
    assert (await transactions.end(following)).producer == bumped(following)
    assert await transactions.end(last) == refused(Verdict.UNKNOWN_ID)


async def test_the_last_epoch_is_fenced_by_the_one_after_it(transactions: Transactions) -> None:
    # Given a transaction of the last epoch
    (partition,) = await transactions.partitions(1)
    producer = await transactions.producer()
    await transactions.set_epoch("t", LAST_EPOCH)
    last = named(producer, producer.producer_id, LAST_EPOCH)
    await transactions.send(last, partition)

    # When somebody else aborts it, then the producer id stays
    outcome = await transactions.end(last, committed=False, fences=True)
    assert outcome.producer == bumped(last)
    assert await transactions.end(last, committed=False) == refused(Verdict.FENCED)

    # And whoever starts next gets another
    following = await transactions.producer()
    assert following.producer_id > producer.producer_id
    assert following.producer_epoch == 0


async def test_a_transaction_is_overdue_after_its_timeout(transactions: Transactions) -> None:
    # Given a transaction that may be open for an hour, and two for a moment, one of them ended
    (partition,) = await transactions.partitions(1)
    long = await transactions.producer("long")
    short, ended = [await transactions.producer(name, timeout_ms=5) for name in ("short", "ended")]
    for producer in (long, ended, short):
        await transactions.send(producer, partition)
    await transactions.end(ended)

    # Then only one becomes overdue
    assert await transactions.overdue() == [short]
    early = await transactions.end(long, committed=False, overdue_only=True)
    assert early == refused(Verdict.INVALID_STATE)
    assert (await transactions.record("long")).state is TransactionState.ONGOING

    # And may be aborted, once
    outcome = await transactions.end(short, committed=False, overdue_only=True)
    assert (outcome.verdict, list(outcome.markers)) == (Verdict.DONE, [partition])
    again = await transactions.end(short, committed=False, overdue_only=True)
    assert again == refused(Verdict.INVALID_STATE)
    assert await transactions.store.overdue_transactions(100) == []


@pytest.mark.parametrize("is_last", [False, True])
async def test_who_was_overdue_hears_its_next_epoch_until_another_has_one(
    transactions: Transactions, is_last: bool
) -> None:
    # Given a producer whose transaction was past its timeout, maybe one with the last epoch
    (partition,) = await transactions.partitions(1)
    producer = await transactions.producer(timeout_ms=1)
    if is_last:
        await transactions.set_epoch("t", LAST_EPOCH)
        producer = named(producer, producer.producer_id, LAST_EPOCH)
    await transactions.send(producer, partition)
    assert await transactions.overdue() == [producer]
    outcome = await transactions.end(producer, committed=False, overdue_only=True)
    following = outcome.producer
    assert following is not None
    if is_last:
        assert (following.producer_id > producer.producer_id, following.producer_epoch) == (True, 0)
    else:
        assert following == bumped(producer)

    # When it ends what it believes to be open, then an abort tells it who it is now
    assert await transactions.end(producer, committed=False) == repeated(following)
    assert await transactions.end(producer) == refused(Verdict.INVALID_STATE)
    for committed in (True, False):
        older = await transactions.end(producer, committed=committed, bumps=False)
        assert older == refused(Verdict.FENCED)
    assert await transactions.producer(expected=producer) == following

    # And once another has started, it hears nothing any more
    await transactions.producer()
    fenced = Verdict.UNKNOWN_ID if is_last else Verdict.FENCED
    assert (await transactions.init(expected=producer)).verdict is Verdict.FENCED
    for committed in (True, False):
        assert (await transactions.end(producer, committed=committed)).verdict is fenced


async def test_a_transaction_that_goes_on_is_not_given_more_time(
    transactions: Transactions,
) -> None:
    # Given a producer with a short timeout, and a transaction that it keeps writing to
    first, second = await transactions.partitions(2)
    producer = await transactions.producer(timeout_ms=40)
    sequence = 0

    # When it never stops, then the transaction is overdue all the same
    deadline = monotonic() + PATIENCE_SECONDS
    while not await transactions.store.overdue_transactions(1):
        assert monotonic() < deadline
        assert isinstance(await transactions.send(producer, first, sequence), int)
        await transactions.store.add_to_transaction(producer, [second])
        sequence += 10
        await transactions.waits()
    assert (await transactions.record()).partitions == [first, second]

    # And its next transaction has its time again
    following = await transactions.goes_on(producer)
    assert await transactions.store.overdue_transactions(1) == []
    await transactions.send(following, first)
    assert await transactions.overdue() == [following]


async def test_so_many_overdue_transactions_are_told(transactions: Transactions) -> None:
    # Given three overdue transactions
    (partition,) = await transactions.partitions(1)
    producers: list[Producer] = []
    for name in ("one", "two", "three"):
        producers.append(await transactions.producer(name, timeout_ms=1))
        await transactions.send(producers[-1], partition)
    found = await transactions.overdue(3)
    assert sorted(found, key=lambda each: each.producer_id) == producers

    # Then no more are told than are asked for
    assert len(await transactions.store.overdue_transactions(2)) == 2


async def test_more_transactions_are_aborted_than_32_bits_count(transactions: Transactions) -> None:
    # Given a partition in which very many were aborted, and an open transaction
    (partition,) = await transactions.partitions(1)
    producer = await transactions.producer()
    assert await transactions.send(producer, partition) == 0
    await transactions.set_aborted_count(partition, INT32_MAX)

    # When that is aborted, too, then it is counted
    ended = await transactions.end(producer, committed=False)
    assert ended.markers[partition].aborted_count == INT32_MAX + 1
    assert await transactions.stands(partition) == (11, 11, INT32_MAX + 1)
    found = (await transactions.store.delete_records({partition: 0}))[partition]
    assert found.aborted_count == INT32_MAX + 1

    # And whoever writes is told, and told again
    await transactions.store.reserve_objects(["wal/many"])
    batches = [a_batch(partition, 0)]
    for _ in range(2):
        (outcome,) = await transactions.store.commit_object("wal/many", 100, batches)
        told = outcome.base_offset, outcome.last_stable_offset, outcome.aborted_count
        assert told == (11, 21, INT32_MAX + 1)

    # And whoever looks for what they wrote, or for what has changed, sees the same
    changed = (await transactions.store.changed_offsets({partition: found}))[partition]
    assert changed is not None
    assert changed.aborted_count == INT32_MAX + 1
    page = await transactions.store.aborted_transactions(
        partition, 0, 21, 9, aborted_count=INT32_MAX + 1
    )
    assert [aborted.last_offset for aborted in page.transactions] == [10]
