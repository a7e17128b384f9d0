"""What storage/metadata/transactions.py promises, asked of every metadata store: how a transaction
ends.
"""

from collections.abc import AsyncIterator

import pytest

from storage.metadata.port import TransactionUse
from storage.metadata.transactions import EndOutcome, TransactionState, Verdict
from storage.partition_offsets import PartitionOffsets
from tests.contracts.metadata_stores import KINDS, whole_log
from tests.contracts.transaction_stores import (
    Transactions,
    bumped,
    open_transactions,
    refused,
    repeated,
)

ENDS = [True, False]
STATES = {True: TransactionState.COMPLETE_COMMIT, False: TransactionState.COMPLETE_ABORT}


@pytest.fixture(params=KINDS)
async def transactions(request: pytest.FixtureRequest) -> AsyncIterator[Transactions]:
    """Each store in turn, empty."""
    async with open_transactions(request.param) as opened:
        yield opened


@pytest.mark.parametrize("committed", ENDS)
async def test_an_end_raises_the_epoch(transactions: Transactions, committed: bool) -> None:
    """KIP-890."""
    # Given a transaction with records
    (partition,) = await transactions.partitions(1)
    producer = await transactions.producer()
    await transactions.send(producer, partition)

    # When it ends
    outcome = await transactions.end(producer, committed=committed)

    # Then the producer goes on with the next epoch
    following = bumped(producer)
    assert outcome == EndOutcome(
        verdict=Verdict.DONE,
        producer=following,
        markers={
            partition: PartitionOffsets(
                log_start_offset=0,
                high_watermark=11,
                last_stable_offset=11,
                aborted_count=0 if committed else 1,
            )
        },
    )
    record = await transactions.record()
    assert (record.producer, record.state) == (following, STATES[committed])
    (state,) = (await transactions.store.producer_states([partition]))[partition]
    assert (state.producer_epoch, state.last_sequence) == (1, -1)

    # And the one before only hears the same again
    assert await transactions.store.add_to_transaction(producer, [partition]) is Verdict.FENCED
    assert await transactions.send(following, partition) == 11


@pytest.mark.parametrize("committed", ENDS)
async def test_a_lost_answer_is_given_again(transactions: Transactions, committed: bool) -> None:
    # Given a transaction that has ended
    (partition,) = await transactions.partitions(1)
    producer = await transactions.producer()
    await transactions.send(producer, partition)
    following = await transactions.goes_on(producer, committed=committed)
    log = await whole_log(transactions.store, partition)

    # When it is ended once more, then the answer is the same, but nothing is written
    for _ in range(2):
        assert await transactions.end(producer, committed=committed) == repeated(following)

    # And who contradicts is refused, as is who does not raise epochs
    assert await transactions.end(producer, committed=not committed) == refused(
        Verdict.INVALID_STATE
    )
    assert await transactions.end(producer, committed=committed, bumps=False) == refused(
        Verdict.FENCED
    )
    assert await transactions.end(producer, committed=False, fences=True) == refused(Verdict.FENCED)
    assert await whole_log(transactions.store, partition) == log
    assert (await transactions.record()).producer == following


@pytest.mark.parametrize("committed", ENDS)
async def test_a_late_end_does_not_end_the_next_transaction(
    transactions: Transactions, committed: bool
) -> None:
    # Given a producer that has ended a transaction and begun the next
    (partition,) = await transactions.partitions(1)
    producer = await transactions.producer()
    await transactions.send(producer, partition)
    following = await transactions.goes_on(producer, committed=committed)
    await transactions.send(following, partition)

    # When the end of the first comes again, then it is fenced, and the second is open
    for bumps in (True, False):
        for again in ENDS:
            outcome = await transactions.end(producer, committed=again, bumps=bumps)
            assert outcome == refused(Verdict.FENCED)
    assert (await transactions.record()).state is TransactionState.ONGOING
    assert (await transactions.stands(partition))[:2] == (21, 11)

    # And when the second has ended, the first is of the past
    await transactions.goes_on(following)
    assert await transactions.end(producer, committed=committed) == refused(Verdict.FENCED)


@pytest.mark.parametrize("committed", ENDS)
async def test_an_end_may_leave_the_epoch(transactions: Transactions, committed: bool) -> None:
    """Clients of before KIP-890."""
    # Given a transaction of such a client
    (partition,) = await transactions.partitions(1)
    producer = await transactions.producer()
    await transactions.store.add_to_transaction(producer, [partition])
    await transactions.send(producer, partition, use=TransactionUse.ADDED)

    # When it ends, then the producer goes on as it is
    outcome = await transactions.end(producer, committed=committed, bumps=False)
    assert (outcome.verdict, outcome.producer) == (Verdict.DONE, producer)
    assert list(outcome.markers) == [partition]
    assert (await transactions.record()).state is STATES[committed]
    (state,) = (await transactions.store.producer_states([partition]))[partition]
    assert (state.producer_epoch, state.last_sequence) == (0, 9)

    # And hears the same again, but not the contrary
    for _ in range(2):
        again = await transactions.end(producer, committed=committed, bumps=False)
        assert again == repeated(producer)
    contrary = await transactions.end(producer, committed=not committed, bumps=False)
    assert contrary == refused(Verdict.INVALID_STATE)

    # And its sequence goes on
    await transactions.store.add_to_transaction(producer, [partition])
    assert await transactions.send(producer, partition, 10, use=TransactionUse.ADDED) == 11
    assert (await transactions.stands(partition))[:2] == (21, 11)


async def test_nothing_can_be_ended_only_once_it_has_begun(transactions: Transactions) -> None:
    # Given a producer that never began anything
    producer = await transactions.producer()

    # Then there is nothing to end, for whoever does not raise epochs, or is not the producer
    for committed in ENDS:
        assert await transactions.end(producer, committed=committed, bumps=False) == refused(
            Verdict.INVALID_STATE
        )
    assert await transactions.end(producer) == refused(Verdict.INVALID_STATE)
    assert await transactions.end(producer, committed=False, fences=True) == refused(
        Verdict.INVALID_STATE
    )
    assert (await transactions.record()).state is TransactionState.EMPTY
    assert (await transactions.record()).producer == producer


async def test_nothing_may_be_aborted_by_a_client_that_raises_epochs(
    transactions: Transactions,
) -> None:
    """KIP-890: it does not know whether its first batch has arrived."""
    # Given a producer that never began anything, and one that has ended what it began
    (partition,) = await transactions.partitions(1)
    new, used = await transactions.producer("new"), await transactions.producer("used")
    await transactions.send(used, partition)
    used = await transactions.goes_on(used)
    assert await transactions.end(used) == refused(Verdict.INVALID_STATE)

    # When they abort, and the answer is lost, then their epochs are raised once
    for producer in (new, used):
        following = bumped(producer)
        assert await transactions.end(producer, committed=False) == repeated(following)
        assert await transactions.end(producer, committed=False) == repeated(following)
        assert await transactions.end(producer) == refused(Verdict.INVALID_STATE)
        record = await transactions.record(producer.transactional_id)
        assert (record.producer, record.state) == (following, TransactionState.COMPLETE_ABORT)

    # And a batch that was on its way is too late
    assert await transactions.send(new, partition) == "InvalidProducerEpoch"
    assert await transactions.stands(partition) == (11, 11, 0)


async def test_a_fenced_producer_is_not_told_its_epoch(transactions: Transactions) -> None:
    # Given a transaction that is aborted by somebody else
    (partition,) = await transactions.partitions(1)
    producer = await transactions.producer()
    await transactions.send(producer, partition)
    outcome = await transactions.end(producer, committed=False, fences=True)
    assert (outcome.verdict, outcome.producer) == (Verdict.DONE, bumped(producer))
    assert await transactions.aborted(partition) == [(producer.producer_id, 0, 10)]

    # Then whatever it does, it is fenced; nor is there anything to be aborted any more
    for committed in ENDS:
        for bumps in (True, False):
            outcome = await transactions.end(producer, committed=committed, bumps=bumps)
            assert outcome == refused(Verdict.FENCED)
    assert await transactions.store.add_to_transaction(producer, [partition]) is Verdict.FENCED
    assert (await transactions.init(expected=producer)).verdict is Verdict.FENCED
    for use in TransactionUse:
        assert await transactions.send(producer, partition, 10, use=use) == "InvalidProducerEpoch"
    again = await transactions.end(bumped(producer), committed=False, fences=True)
    assert again == refused(Verdict.INVALID_STATE)


async def test_a_producer_that_recovered_cannot_end_what_it_was(transactions: Transactions) -> None:
    # Given a producer that asked for its next epoch (KIP-360), and has begun nothing
    producer = await transactions.producer()
    await transactions.producer(expected=producer)

    # When the old epoch ends something, then it is fenced, and nothing changes
    for committed in ENDS:
        for bumps in ENDS:
            outcome = await transactions.end(producer, committed=committed, bumps=bumps)
            assert outcome == refused(Verdict.FENCED)
    assert (await transactions.record()).producer == bumped(producer)


async def test_an_end_without_a_bump_closes_the_way_back(transactions: Transactions) -> None:
    # Given a producer that recovered, and then ended a transaction without a bump
    (partition,) = await transactions.partitions(1)
    producer = await transactions.producer()
    following = await transactions.producer(expected=producer)
    await transactions.store.add_to_transaction(following, [partition])
    await transactions.end(following, bumps=False)

    # Then who asks with the epoch before is late
    assert (await transactions.init(expected=producer)).verdict is Verdict.FENCED


async def test_an_end_with_a_bump_is_a_way_back(transactions: Transactions) -> None:
    # Given a producer that ended a transaction, and did not hear with which epoch it goes on
    (partition,) = await transactions.partitions(1)
    producer = await transactions.producer()
    await transactions.send(producer, partition)
    following = await transactions.goes_on(producer)

    # When it asks for an epoch with the one it knows, then it is that one, and nothing has begun
    for _ in range(2):
        assert await transactions.producer(expected=producer) == following
        assert (await transactions.record()).state is TransactionState.EMPTY

    # And it has heard of the end, which nobody needs to ask for again
    assert await transactions.end(producer) == refused(Verdict.FENCED)
