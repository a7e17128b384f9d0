"""The life of transactions over the wire: of old clients (transaction version 1), and new ones (2).

Kafka's names: TV1 adds partitions before it writes to them and keeps its epoch; TV2 (KIP-890) adds
them by writing, and every end gives it the next epoch.
"""

import asyncpg
import pytest
from kio.schema.errors import ErrorCode

from storage.postgres.postgres_binaries import unix_socket_dsn
from tests.support.broker import BrokerProcess
from tests.support.transaction_wire import (
    ABORT,
    COMMIT,
    Identity,
    TransactionalProducer,
    add_offsets_request,
    add_partitions_request,
    added,
    end_request,
    entries,
    fetch,
    init_request,
    read_log,
)
from tests.support.wire import WireClient

NONE, FENCED = ErrorCode.none, ErrorCode.producer_fenced
OLD_EPOCH = ErrorCode.invalid_producer_epoch
WRONG_STATE = ErrorCode.invalid_txn_state
LAST_EPOCH = 32_766


@pytest.fixture
def transactional_id(topic: str) -> str:
    """Return a transactional id that no other test uses."""
    return f"id-of-{topic}"


async def set_epoch(broker: BrokerProcess, transactional_id: str, epoch: int) -> None:
    """Make a transactional id look as if it had used that many epochs."""
    database = await asyncpg.connect(unix_socket_dsn(broker.log.parent / "postgres"))
    try:
        changed = await database.execute(
            "UPDATE streamhouse_internal.transactions SET producer_epoch = $2"
            " WHERE transactional_id = $1",
            transactional_id,
            epoch,
        )
    finally:
        await database.close()
    assert changed == "UPDATE 1"


async def test_a_transaction_of_an_old_client(
    wire: WireClient, topic: str, transactional_id: str
) -> None:
    # Given a producer of version 1
    await wire.create_topic(topic, partitions=2)
    producer = TransactionalProducer(wire, transactional_id, transaction_version=1)
    assert await producer.init() is NONE
    began = producer.identity

    # When it commits one transaction and aborts another
    assert await producer.add(topic, 0, 1) is NONE
    assert (await producer.produce(topic, b"a", b"b")).base_offset == 0
    assert (await producer.produce(topic, b"c", partition=1)).base_offset == 0
    assert await producer.end(committed=True) is NONE
    assert await producer.add(topic, 0) is NONE
    assert (await producer.produce(topic, b"d")).base_offset == 3
    assert await producer.end(committed=False) is NONE

    # Then each partition has a marker for each transaction that it was part of
    assert await read_log(wire, topic) == [(0, b"a"), (1, b"b"), (2, COMMIT), (3, b"d"), (4, ABORT)]
    assert await read_log(wire, topic, partition=1) == [(0, b"c"), (1, COMMIT)]
    assert producer.identity == began


async def test_a_transaction_of_a_new_client(
    wire: WireClient, topic: str, transactional_id: str
) -> None:
    # Given a producer of version 2
    await wire.create_topic(topic, partitions=2)
    producer = TransactionalProducer(wire, transactional_id)
    assert await producer.init() is NONE
    producer_id = producer.producer_id

    # When it commits one transaction and aborts another, and adds nothing
    for value, committed in ((b"a", True), (b"b", False)):
        for partition in (0, 1):
            assert (await producer.produce(topic, value, partition=partition)).error_code is NONE
        assert await producer.end(committed=committed) is NONE

    # Then markers are there all the same, and each end gave it another epoch
    for partition in (0, 1):
        found = await read_log(wire, topic, partition=partition)
        assert found == [(0, b"a"), (1, COMMIT), (2, b"b"), (3, ABORT)]
    assert producer.identity == Identity(transactional_id, producer_id, 2)


async def test_readers_of_committed_records_wait_for_the_end_and_no_longer(
    wire: WireClient, topic: str, transactional_id: str
) -> None:
    # Given an open transaction
    await wire.create_topic(topic)
    producer = TransactionalProducer(wire, transactional_id)
    await producer.init()
    await producer.produce(topic, b"a")
    fetched = await fetch(wire, topic, committed=True)
    assert (fetched.last_stable_offset, fetched.high_watermark) == (0, 1)
    assert entries(fetched) == []

    # When it is aborted
    producer_id = producer.producer_id
    await producer.end(committed=False)

    # Then the very next fetch has it, and names what is to be skipped
    fetched = await fetch(wire, topic, committed=True)
    assert (fetched.last_stable_offset, fetched.high_watermark) == (2, 2)
    assert entries(fetched) == [(0, b"a"), (1, ABORT)]
    assert [(one.producer_id, one.first_offset) for one in fetched.aborted_transactions] == [
        (producer_id, 0)
    ]


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("transaction_version", [1, 2])
async def test_an_end_that_is_asked_for_again_gets_the_first_answer(
    wire: WireClient, topic: str, transactional_id: str, transaction_version: int, committed: bool
) -> None:
    # Given a transaction that has ended
    await wire.create_topic(topic)
    producer = TransactionalProducer(wire, transactional_id, transaction_version)
    await producer.init()
    await producer.add(topic, 0)
    await producer.produce(topic, b"a")
    request = producer.end_request(committed=committed)
    first = await wire.ask(request)
    before = await read_log(wire, topic)

    # When its end is asked for again, and then the contrary
    again = await wire.ask(request)
    contrary = await wire.ask(producer.end_request(committed=not committed))

    # Then the one gets the same answer, the other is refused, and nothing was written
    assert first.error_code is NONE
    assert again == first
    assert contrary.error_code is WRONG_STATE
    assert await read_log(wire, topic) == before


async def test_a_late_end_of_a_new_client_cannot_end_its_next_transaction(
    wire: WireClient, topic: str, transactional_id: str
) -> None:
    # Given a client that has aborted a transaction, and is in the middle of the next one
    await wire.create_topic(topic)
    producer = TransactionalProducer(wire, transactional_id)
    await producer.init()
    await producer.produce(topic, b"a")
    late = producer.end_request(committed=True)
    assert await producer.end(committed=False) is NONE
    await producer.produce(topic, b"b")

    # When a commit of the first arrives that was under way for long
    response = await wire.ask(late)

    # Then it does nothing
    assert response.error_code is FENCED
    assert await producer.end(committed=False) is NONE
    assert await read_log(wire, topic) == [(0, b"a"), (1, ABORT), (2, b"b"), (3, ABORT)]


async def test_an_abort_of_nothing_gives_a_new_client_its_next_epoch(
    wire: WireClient, transactional_id: str
) -> None:
    producer = TransactionalProducer(wire, transactional_id)
    await producer.init()
    assert await producer.end(committed=False) is NONE
    assert producer.epoch == 1
    assert await producer.end(committed=True) is WRONG_STATE


async def test_a_successor_aborts_and_fences(
    wire: WireClient, topic: str, transactional_id: str
) -> None:
    # Given a producer in the middle of a transaction
    await wire.create_topic(topic)
    first = TransactionalProducer(wire, transactional_id, transaction_version=1)
    await first.init()
    await first.add(topic, 0)
    await first.produce(topic, b"a")

    # When another one starts with the same transactional id
    second = TransactionalProducer(wire, transactional_id, transaction_version=1)
    assert await second.init() is NONE

    # Then the transaction is aborted, and whatever the first one asks for is refused
    assert await read_log(wire, topic) == [(0, b"a"), (1, ABORT)]
    assert second.producer_id == first.producer_id
    assert second.epoch > first.epoch
    assert await first.add(topic, 0) is FENCED
    assert await first.add_group("group") is FENCED
    assert (await first.produce(topic, b"b")).error_code is OLD_EPOCH
    assert await first.end(committed=True) is FENCED
    assert await first.init() is FENCED

    # And the second one has the partition for itself
    await second.add(topic, 0)
    await second.produce(topic, b"c")
    assert await second.end(committed=True) is NONE
    assert await read_log(wire, topic) == [(0, b"a"), (1, ABORT), (2, b"c"), (3, COMMIT)]


@pytest.mark.parametrize("is_open", [True, False])
@pytest.mark.parametrize("transaction_version", [1, 2])
async def test_a_producer_gets_its_next_epoch_once_however_often_it_asks(
    wire: WireClient, topic: str, transactional_id: str, transaction_version: int, is_open: bool
) -> None:
    # Given a producer after an error, whose transaction may be open
    await wire.create_topic(topic)
    producer = TransactionalProducer(wire, transactional_id, transaction_version)
    await producer.init()
    before = producer.identity
    if is_open:
        await producer.add(topic, 0)
        await producer.produce(topic, b"a")

    # When it asks for the next epoch, and again because the answer was lost (KIP-360)
    request = init_request(transactional_id, producer_id=before.producer_id, epoch=before.epoch)
    first, again = await wire.ask(request), await wire.ask(request)

    # Then both answers are the same: the next epoch
    assert first.error_code is NONE
    assert (first.producer_id, first.producer_epoch) == (before.producer_id, before.epoch + 1)
    assert again == first
    if is_open:
        assert await read_log(wire, topic) == [(0, b"a"), (1, ABORT)]

    # And it goes on
    assert await producer.init() is NONE
    await producer.add(topic, 0)
    assert (await producer.produce(topic, b"b")).error_code is NONE
    assert await producer.end(committed=True) is NONE


async def test_a_new_client_whose_epochs_are_used_up_goes_on_with_another_id(
    broker: BrokerProcess, wire: WireClient, topic: str, transactional_id: str
) -> None:
    # Given a producer with the last epoch, in a transaction
    await wire.create_topic(topic)
    producer = TransactionalProducer(wire, transactional_id)
    await producer.init()
    before = producer.producer_id
    await set_epoch(broker, transactional_id, LAST_EPOCH)
    producer.epoch = LAST_EPOCH
    await producer.produce(topic, b"a")

    # When it commits, and asks again
    request = producer.end_request(committed=True)
    answers = [await wire.ask(request) for _ in range(2)]
    assert answers[0] == answers[1]
    assert await producer.end(committed=True) is NONE

    # Then it has another producer id, and goes on
    assert producer.producer_id != before
    assert producer.epoch == 0
    await producer.produce(topic, b"b")
    assert await producer.end(committed=True) is NONE
    assert await read_log(wire, topic) == [(0, b"a"), (1, COMMIT), (2, b"b"), (3, COMMIT)]


@pytest.mark.parametrize("is_open", [True, False])
async def test_an_old_client_whose_epochs_are_used_up_gets_another_id(
    broker: BrokerProcess, wire: WireClient, topic: str, transactional_id: str, is_open: bool
) -> None:
    # Given a producer with the last epoch
    await wire.create_topic(topic)
    producer = TransactionalProducer(wire, transactional_id, transaction_version=1)
    await producer.init()
    before = producer.producer_id
    await set_epoch(broker, transactional_id, LAST_EPOCH)
    producer.epoch = LAST_EPOCH
    if is_open:
        await producer.add(topic, 0)
        await producer.produce(topic, b"a")

    # When another one starts in its place
    successor = TransactionalProducer(wire, transactional_id, transaction_version=1)
    assert await successor.init() is NONE

    # Then that has another producer id, and nobody else can go on with the first
    assert successor.producer_id != before
    assert successor.epoch == 0
    assert await producer.add(topic, 0) is ErrorCode.invalid_producer_id_mapping
    assert await successor.add(topic, 0) is NONE
    assert (await successor.produce(topic, b"b")).error_code is NONE
    assert await successor.end(committed=True) is NONE
    aborted = [(0, b"a"), (1, ABORT)] if is_open else []
    at = len(aborted)
    assert await read_log(wire, topic) == [*aborted, (at, b"b"), (at + 1, COMMIT)]


@pytest.mark.parametrize("version", range(6))
async def test_every_version_of_init_and_end(
    wire: WireClient, topic: str, transactional_id: str, version: int
) -> None:
    # Given a new transactional id
    await wire.create_topic(topic)
    first = await wire.ask(init_request(transactional_id, version=version))
    assert (first.error_code, first.producer_epoch) == (NONE, 0)
    who = Identity(transactional_id, first.producer_id, 0)

    # When something is added, and the end asked for
    added_in = min(version, 3)
    response = await wire.ask(add_partitions_request(who, {topic: [0]}, version=added_in))
    assert added(response.results_by_topic_v3_and_below) == {(topic, 0): NONE}
    response = await wire.ask(add_offsets_request(who, "group", version=min(version, 4)))
    assert response.error_code is NONE
    ended = await wire.ask(end_request(who, committed=True, version=version))

    # Then it ends, and from v5 on the next epoch is named
    assert ended.error_code is NONE
    if version == 5:
        assert (ended.producer_id, ended.producer_epoch) == (first.producer_id, 1)
    assert await read_log(wire, topic) == [(0, COMMIT)]

    # And a producer id for an idempotent producer is another one
    idempotent = await wire.ask(init_request(None, version=version))
    assert (idempotent.error_code, idempotent.producer_epoch) == (NONE, 0)
    assert idempotent.producer_id != first.producer_id
