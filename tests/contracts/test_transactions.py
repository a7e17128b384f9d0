"""What storage/metadata/transactions.py promises, asked of every store: who a producer is."""

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from protocol.ids import Partition
from storage.errors import UnknownPartition
from storage.metadata.transactions import (
    LAST_EPOCH,
    InitOutcome,
    Producer,
    TransactionListing,
    TransactionRecord,
    TransactionState,
    Verdict,
)
from tests.contracts.metadata_stores import KINDS
from tests.contracts.transaction_stores import (
    HOUR_MS,
    Transactions,
    bumped,
    named,
    open_transactions,
    refused,
)


@pytest.fixture(params=KINDS)
async def transactions(request: pytest.FixtureRequest) -> AsyncIterator[Transactions]:
    """Each store in turn, empty."""
    async with open_transactions(request.param) as opened:
        yield opened


async def test_a_new_id_gets_the_fresh_producer_id(transactions: Transactions) -> None:
    # When an id is asked for that nobody had, whatever its client believes
    store = transactions.store
    outcome = await store.init_producer("new", timeout_ms=5, expected=(1, 2), fresh_producer_id=77)

    # Then it begins with epoch 0, and nothing is open
    assert outcome.verdict is Verdict.DONE
    assert outcome.producer is not None
    assert (outcome.producer.producer_id, outcome.producer.producer_epoch) == (77, 0)
    assert await store.find_transactions(["other", "new"]) == [
        TransactionRecord(
            producer=outcome.producer,
            state=TransactionState.EMPTY,
            timeout_ms=5,
            started_ms=-1,
            partitions=[],
        )
    ]


async def test_who_starts_again_gets_the_next_epoch(transactions: Transactions) -> None:
    # Given a producer
    first = await transactions.producer(timeout_ms=1000)

    # When it starts again, and again, with another timeout
    second = await transactions.producer(timeout_ms=2000)
    third = await transactions.producer(timeout_ms=3000)

    # Then each time it has the next epoch, and those before are fenced
    assert (second, third) == (bumped(first), bumped(first, 2))
    assert (await transactions.record()).timeout_ms == 3000
    for fenced in (first, second, bumped(third)):
        assert await transactions.store.add_to_transaction(fenced, []) is Verdict.FENCED
        assert await transactions.end(fenced) == refused(Verdict.FENCED)
        assert (await transactions.init(expected=fenced)).verdict is Verdict.FENCED


async def test_ids_do_not_know_each_other(transactions: Transactions) -> None:
    # Given two transactional ids, one with odd text
    one, other = await transactions.producer("one"), await transactions.producer("\x00 \x01 é")
    assert one.producer_id != other.producer_id

    # Then neither can go as the other, and somebody who is not there is unknown
    thief = named(other, one.producer_id, 0)
    nobody = Producer(transactional_id="nobody", producer_id=one.producer_id, producer_epoch=0)
    for stranger in (thief, nobody):
        assert await transactions.store.add_to_transaction(stranger, []) is Verdict.UNKNOWN_ID
        assert await transactions.end(stranger) == refused(Verdict.UNKNOWN_ID)
        assert await transactions.end(stranger, bumps=False) == refused(Verdict.UNKNOWN_ID)
    assert (await transactions.init("one", expected=other)).verdict is Verdict.FENCED

    # And each is found by its producer id
    assert await transactions.store.transactional_id_of(one.producer_id) == "one"
    assert await transactions.store.transactional_id_of(other.producer_id) == "\x00 \x01 é"
    assert await transactions.store.transactional_id_of(9_999) is None


async def test_a_producer_recovers_with_what_it_was_told(transactions: Transactions) -> None:
    """KIP-360."""
    # Given a producer that asks for the next epoch, naming its own
    first = await transactions.producer()
    second = await transactions.producer(expected=first)
    assert second == bumped(first)

    # When the answer was lost, and it asks again, then it is the same
    for _ in range(2):
        assert await transactions.producer(expected=first) == second

    # And once it has gone on from there, the way back is closed
    third = await transactions.producer(expected=second)
    assert third == bumped(second)
    assert (await transactions.init(expected=first)).verdict is Verdict.FENCED
    assert await transactions.producer(expected=second) == third


async def test_a_begun_transaction_closes_the_way_back(transactions: Transactions) -> None:
    # Given a producer that recovered, and has begun a transaction
    (partition,) = await transactions.partitions(1)
    first = await transactions.producer()
    second = await transactions.producer(expected=first)
    assert await transactions.send(second, partition) == 0

    # When its first question comes again, late, then it is fenced, and the transaction goes on
    assert (await transactions.init(expected=first)).verdict is Verdict.FENCED
    assert await transactions.send(second, partition, 10) == 10


async def test_who_starts_again_leaves_no_way_back(transactions: Transactions) -> None:
    # Given a producer that has recovered, and then another of the same id that has just started
    first = await transactions.producer()
    second = await transactions.producer(expected=first)
    third = await transactions.producer()

    # When the first repeats itself, then it is fenced
    assert (await transactions.init(expected=first)).verdict is Verdict.FENCED
    assert (await transactions.init(expected=second)).verdict is Verdict.FENCED
    assert await transactions.producer(expected=third) == bumped(third)


async def test_a_start_that_comes_late_changes_nothing(transactions: Transactions) -> None:
    # Given a producer that asked, got no answer, and asked again
    first = await transactions.producer()
    store = transactions.store
    earlier = await store.allocate_producer_ids(1)
    second = await transactions.producer()
    assert second == bumped(first)

    # When its first question is carried out after all, and once more when it has recovered
    async def comes_late() -> Verdict:
        asked = await store.init_producer(
            "t", timeout_ms=HOUR_MS, expected=None, fresh_producer_id=earlier
        )
        return asked.verdict

    assert await comes_late() is Verdict.FENCED
    third = await transactions.producer(expected=second)
    assert await comes_late() is Verdict.FENCED

    # Then the producer goes on as what it was told
    assert third == bumped(second)
    assert await store.add_to_transaction(third, []) is Verdict.DONE


async def test_who_recovers_at_the_same_time_is_not_in_the_way_of_who_starts(
    transactions: Transactions,
) -> None:
    # Given somebody who is about to start
    first = await transactions.producer()
    fresh = await transactions.store.allocate_producer_ids(1)

    # When the producer that it follows recovers before it
    second = await transactions.producer(expected=first)
    outcome = await transactions.store.init_producer(
        "t", timeout_ms=HOUR_MS, expected=None, fresh_producer_id=fresh
    )

    # Then it is the next one all the same
    assert outcome == InitOutcome(verdict=Verdict.DONE, producer=bumped(second))


async def test_an_open_transaction_has_to_be_aborted_first(transactions: Transactions) -> None:
    # Given a producer with an open transaction
    (partition,) = await transactions.partitions(1)
    producer = await transactions.producer()
    assert await transactions.send(producer, partition) == 0

    # When its id is asked for, by one that has just started or by itself
    for expected in (None, producer):
        outcome = await transactions.init(expected=expected, timeout_ms=1)

        # Then it is told whose transaction is open, and nothing has changed
        assert outcome == InitOutcome(verdict=Verdict.OPEN, producer=producer)
        assert (await transactions.init(expected=bumped(producer))).verdict is Verdict.FENCED
        record = await transactions.record()
        assert (record.state, record.timeout_ms) == (TransactionState.ONGOING, HOUR_MS)

    # And once that is aborted and fenced, the id goes on behind the epoch that nobody was told
    assert (await transactions.end(producer, committed=False, fences=True)).verdict is Verdict.DONE
    assert (await transactions.init(expected=producer)).verdict is Verdict.FENCED
    assert await transactions.producer() == bumped(producer, 2)


async def test_epochs_are_used_up(transactions: Transactions) -> None:
    # Given a producer with the epoch before the last
    first = await transactions.producer()
    await transactions.set_epoch("t", LAST_EPOCH - 1)

    # When it starts again, then it gets the last one
    last = await transactions.producer()
    assert last == named(first, first.producer_id, LAST_EPOCH)

    # And after that a new producer id, also when it repeats the question
    fresh = await transactions.producer(expected=last)
    assert fresh.producer_id > first.producer_id
    assert fresh.producer_epoch == 0
    assert await transactions.producer(expected=last) == fresh
    assert await transactions.store.transactional_id_of(first.producer_id) is None
    assert await transactions.store.add_to_transaction(last, []) is Verdict.UNKNOWN_ID

    # And so does one that has just started
    await transactions.set_epoch("t", LAST_EPOCH)
    fresher = await transactions.producer()
    assert fresher.producer_id > fresh.producer_id
    assert fresher.producer_epoch == 0


async def test_partitions_and_groups_take_part(transactions: Transactions) -> None:
    # Given a producer without a transaction
    first, second, third = await transactions.partitions(3)
    producer = await transactions.producer()

    # When partitions and a group are added, some twice
    store = transactions.store
    assert await store.add_to_transaction(producer, [second, first], ["g"]) is Verdict.DONE
    begun = await transactions.record()
    await transactions.waits()
    assert await store.add_to_transaction(producer, [third, first], ["g", "h"]) is Verdict.DONE

    # Then the transaction has begun with the first of them, and has them all
    record = await transactions.record()
    assert record.producer == producer
    assert record.state is TransactionState.ONGOING
    assert record.partitions == [first, second, third]
    assert record.started_ms == begun.started_ms > 0
    (listed,) = [each async for each in store.list_transactions()]
    assert listed.running_ms >= 0
    assert listed == TransactionListing(
        transactional_id="t",
        producer_id=producer.producer_id,
        state=TransactionState.ONGOING,
        running_ms=listed.running_ms,
    )
    assert await transactions.stands(first) == (0, 0, 0)


async def test_a_partition_that_is_gone_takes_no_part(transactions: Transactions) -> None:
    # Given a transaction with records in a topic that is deleted, and one that is not
    (kept,) = await transactions.partitions(1)
    (doomed,) = await transactions.partitions(1)
    producer = await transactions.producer()
    await transactions.send(producer, kept)
    await transactions.send(producer, doomed)
    await transactions.store.delete_topic(doomed.topic_id)

    # Then it is not shown any more, nor can it be added, nor one that never was
    for gone in (doomed, Partition(uuid4(), 0)):
        added = await transactions.store.add_to_transaction(producer, [gone])
        assert added is Verdict.UNKNOWN_PARTITION
    assert (await transactions.record()).partitions == [kept]
    assert await transactions.store.producer_states([doomed]) == {}

    # And the transaction ends in what is left
    outcome = await transactions.end(producer, committed=False)
    assert outcome.verdict is Verdict.DONE
    assert list(outcome.markers) == [kept]
    with pytest.raises(UnknownPartition):
        await transactions.aborted(doomed)


async def test_nothing_takes_part_beside_a_partition_that_does_not_exist(
    transactions: Transactions,
) -> None:
    # Given a producer without a transaction
    (partition,) = await transactions.partitions(1)
    producer = await transactions.producer()

    # When it adds a partition that exists, one that does not, and a group
    both = [partition, Partition(partition.topic_id, 1)]
    added = await transactions.store.add_to_transaction(producer, both, ["g"])

    # Then it hears that, and nothing has begun
    assert added is Verdict.UNKNOWN_PARTITION
    record = await transactions.record()
    assert (record.state, record.partitions) == (TransactionState.EMPTY, [])


async def test_all_ids_are_listed(transactions: Transactions) -> None:
    # Given ids in every state
    (partition,) = await transactions.partitions(1)
    producers = {
        name: await transactions.producer(name) for name in ("empty", "open", "done", "undone")
    }
    for name in ("open", "done", "undone"):
        await transactions.send(producers[name], partition)
    await transactions.end(producers["done"])
    await transactions.end(producers["undone"], committed=False)

    # Then each is listed and described
    listed = {each.transactional_id: each async for each in transactions.store.list_transactions()}
    assert {name: each.state for name, each in listed.items()} == {
        "empty": TransactionState.EMPTY,
        "open": TransactionState.ONGOING,
        "done": TransactionState.COMPLETE_COMMIT,
        "undone": TransactionState.COMPLETE_ABORT,
    }
    assert {name for name, each in listed.items() if each.running_ms >= 0} == {"open"}
    for name, producer in producers.items():
        assert listed[name].producer_id == producer.producer_id
        record = await transactions.record(name)
        assert record.state is listed[name].state
        assert (record.started_ms > 0, list(record.partitions)) == (
            (True, [partition]) if name == "open" else (False, [])
        )


async def test_each_of_many_ids_is_listed_once(transactions: Transactions) -> None:
    # Given more ids than are read at once, with all that text may hold
    ids = {
        f"{number}{rest}" for number in range(150) for rest in ("", "\x00", "\x01", "\x010", "é")
    }
    for name in ids:
        await transactions.producer(name)

    # Then all of them are listed
    listed = [each.transactional_id async for each in transactions.store.list_transactions()]
    assert len(listed) == len(ids)
    assert set(listed) == ids


async def test_unused_ids_are_forgotten(transactions: Transactions) -> None:
    # Given ids that are not used, one of them in an open transaction
    (partition,) = await transactions.partitions(1)
    unused, busy = await transactions.producer("unused"), await transactions.producer("busy")
    await transactions.send(busy, partition)
    await transactions.waits()

    # When not much time has passed, then all stay
    assert await transactions.store.forget_transactional_ids(HOUR_MS) == 0

    # And when any time is too long, then only the open one stays
    assert await transactions.store.forget_transactional_ids(0) == 1
    left = [each.transactional_id async for each in transactions.store.list_transactions()]
    assert left == ["busy"]
    assert await transactions.store.find_transactions(["unused"]) == []
    assert await transactions.store.transactional_id_of(unused.producer_id) is None
    assert await transactions.store.add_to_transaction(unused, []) is Verdict.UNKNOWN_ID
    assert await transactions.end(unused, committed=False) == refused(Verdict.UNKNOWN_ID)
    assert await transactions.send(unused, partition) == "InvalidProducerIdMapping"
    assert await transactions.send(busy, partition, 10) == 10

    # And an id that comes back is new
    again = await transactions.producer("unused", expected=unused)
    assert again.producer_id > unused.producer_id
    assert again.producer_epoch == 0
