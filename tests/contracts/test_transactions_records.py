"""What storage/metadata/transactions.py promises, asked of every metadata store: which batches get
in.
"""

from collections.abc import AsyncIterator

import pytest

from storage.metadata.port import TransactionUse
from storage.metadata.transactions import LAST_EPOCH
from tests.contracts.metadata_stores import (
    KINDS,
    write,
)
from tests.contracts.transaction_stores import Transactions, bumped, named, open_transactions

NONE, ADDED, ADDS = TransactionUse.NONE, TransactionUse.ADDED, TransactionUse.ADDS


@pytest.fixture(params=KINDS)
async def transactions(request: pytest.FixtureRequest) -> AsyncIterator[Transactions]:
    """Each store in turn, empty."""
    async with open_transactions(request.param) as opened:
        yield opened


async def test_a_batch_needs_a_partition_that_was_added(transactions: Transactions) -> None:
    # Given a producer whose open transaction has one partition of two
    first, second = await transactions.partitions(2)
    producer = await transactions.producer()
    assert await transactions.send(producer, first, use=ADDED) == "InvalidTransactionState"
    await transactions.store.add_to_transaction(producer, [first])

    # Then only that one takes its batches
    assert await transactions.send(producer, first, use=ADDED) == 0
    assert await transactions.send(producer, second, use=ADDED) == "InvalidTransactionState"
    assert await transactions.stands(first) == (10, 0, 0)
    assert await transactions.stands(second) == (0, 0, 0)

    # And none any more once the transaction has ended
    await transactions.end(producer, bumps=False)
    assert await transactions.send(producer, first, 10, use=ADDED) == "InvalidTransactionState"
    assert await transactions.stands(first) == (11, 11, 0)


async def test_a_batch_adds_its_partition(transactions: Transactions) -> None:
    """KIP-890."""
    # Given a producer without an open transaction
    first, second = await transactions.partitions(2)
    producer = await transactions.producer()

    # When it just writes
    assert await transactions.send(producer, second) == 0
    record = await transactions.record()
    assert (record.state, record.partitions) == ("Ongoing", [second])
    assert record.started_ms > 0
    assert await transactions.send(producer, first) == 0
    assert await transactions.send(producer, first, 10, use=ADDED) == 10

    # Then its transaction has begun, with both
    assert (await transactions.record()).partitions == [first, second]
    assert await transactions.stands(first) == (20, 0, 0)


async def test_a_batch_that_is_refused_adds_nothing(transactions: Transactions) -> None:
    # Given a producer of which the partition knows nothing
    (partition,) = await transactions.partitions(1)
    producer = await transactions.producer()

    # When its first batch does not begin with 0, then something is missing, and nothing has begun
    assert await transactions.send(producer, partition, 10) == "OutOfOrderSequence"
    assert (await transactions.record()).state == "Empty"
    assert (await transactions.record()).partitions == []

    # Also if an older client has said that it would write there
    await transactions.store.add_to_transaction(producer, [partition])
    assert await transactions.send(producer, partition, 10, use=ADDED) == "OutOfOrderSequence"
    assert await transactions.stands(partition) == (0, 0, 0)


async def test_a_batch_needs_the_current_epoch(transactions: Transactions) -> None:
    # Given a producer that is followed by another with the next epoch, which has not written yet
    (partition,) = await transactions.partitions(1)
    zombie = await transactions.producer()
    assert await transactions.send(zombie, partition) == 0
    await transactions.end(zombie, bumps=False)
    current = await transactions.producer()

    # Then the old one is refused, and one of an epoch that nobody was given, but not a repetition
    for use in (ADDED, ADDS):
        assert await transactions.send(zombie, partition, 10, use=use) == "InvalidProducerEpoch"
        # in order or not: who is fenced hears that first
        assert await transactions.send(zombie, partition, 99, use=use) == "InvalidProducerEpoch"
        future = bumped(current)
        assert await transactions.send(future, partition, use=use) == "InvalidProducerEpoch"
        assert await transactions.send(zombie, partition, 0, use=use) == "duplicate of 0"
    assert (await transactions.record()).state == "Empty"
    assert await transactions.stands(partition) == (11, 11, 0)

    # And once the new one has written, the partition itself knows better
    assert await transactions.send(current, partition) == 11
    assert await transactions.send(zombie, partition, 0) == "InvalidProducerEpoch"


async def test_a_batch_needs_a_transactional_id(transactions: Transactions) -> None:
    # Given a producer that is only idempotent, and one whose epochs were used up
    (partition,) = await transactions.partitions(1)
    idempotent = await transactions.store.allocate_producer_ids(1)
    stranger = named(await transactions.producer(), idempotent, 0)
    assert await write(transactions.store, partition, idempotent, 0, 0) == 0
    await transactions.producer("rotated")
    await transactions.set_epoch("rotated", LAST_EPOCH)
    rotated = (await transactions.record("rotated")).producer
    assert (await transactions.producer("rotated")).producer_id != rotated.producer_id

    # When they write in a transaction, then nobody has that producer id
    for use in (ADDED, ADDS):
        for producer, sequence in ((stranger, 10), (stranger, 99), (rotated, 0), (rotated, 9)):
            answer = await transactions.send(producer, partition, sequence, use=use)
            assert answer == "InvalidProducerIdMapping"
        assert await transactions.send(stranger, partition, 0, use=use) == "duplicate of 0"
    assert await write(transactions.store, partition, idempotent, 0, 10) == 10


async def test_a_transaction_has_no_other_batches_between(transactions: Transactions) -> None:
    # Given a producer with records of an open transaction in one of its two partitions
    first, second, third = await transactions.partitions(3)
    producer = await transactions.producer()
    await transactions.send(producer, first)
    await transactions.store.add_to_transaction(producer, [second])

    # When it writes without a transaction, then only where the transaction has no records
    assert await transactions.send(producer, first, 10, use=NONE) == "InvalidTransactionState"
    assert await transactions.send(producer, first, 99, use=NONE) == "OutOfOrderSequence"
    assert await transactions.send(producer, first, 0, use=NONE) == "duplicate of 0"
    assert await transactions.send(producer, second, use=NONE) == 0
    assert await transactions.send(producer, third, use=NONE) == 0
    assert await transactions.stands(second) == (10, 10, 0)

    # And when the transaction has ended, there, too
    producer = await transactions.goes_on(producer)
    assert await transactions.send(producer, first, use=NONE) == 11


async def test_a_repeated_batch_is_no_part_of_the_next_transaction(
    transactions: Transactions,
) -> None:
    # Given a producer, of before KIP-890, whose transaction has ended
    (partition,) = await transactions.partitions(1)
    producer = await transactions.producer()
    assert await transactions.send(producer, partition) == 0
    await transactions.end(producer, bumps=False)

    # When a batch comes again, before and in the next transaction
    assert await transactions.send(producer, partition) == "duplicate of 0"
    assert (await transactions.record()).state == "CompleteCommit"
    await transactions.store.add_to_transaction(producer, [partition])
    assert await transactions.send(producer, partition, use=ADDED) == "duplicate of 0"

    # Then it opens nothing
    assert await transactions.stands(partition) == (11, 11, 0)
    assert await transactions.send(producer, partition, 10, use=ADDED) == 11
    assert await transactions.stands(partition) == (21, 11, 0)


async def test_nothing_old_is_appended_behind_a_marker(transactions: Transactions) -> None:
    """KIP-890: with the epoch that the marker carries."""
    # Given a transaction that has ended, in a partition with records and in one without
    first, second = await transactions.partitions(2)
    producer = await transactions.producer()
    await transactions.send(producer, first)
    await transactions.store.add_to_transaction(producer, [second])
    following = await transactions.goes_on(producer)

    # When batches of it come late, as what they were or otherwise, then they are of an old epoch
    for partition in (first, second):
        for use in (NONE, ADDED, ADDS):
            for sequence in (0, 10):
                answer = await transactions.send(producer, partition, sequence, use=use)
                assert answer == "InvalidProducerEpoch"

    # And the next transaction begins with 0 in each
    for partition in (first, second):
        assert await transactions.send(following, partition, 10) == "OutOfOrderSequence"
    assert (await transactions.record()).state == "CompleteCommit"
    assert await transactions.send(following, first) == 11
    assert await transactions.send(following, second) == 1
