"""What requests of transactions are refused with, in every version that tells it differently."""

import pytest
from kio.schema.errors import ErrorCode

from tests.support.broker import BrokerProcess
from tests.support.transaction_wire import (
    ABORT,
    Identity,
    TransactionalProducer,
    add_offsets_request,
    add_partitions_request,
    add_several_request,
    added,
    end_request,
    init_request,
    marked,
    markers_request,
    read_log,
)
from tests.support.wire import WireClient

NONE, FENCED = ErrorCode.none, ErrorCode.producer_fenced
OLD_EPOCH = ErrorCode.invalid_producer_epoch
WRONG_ID = ErrorCode.invalid_producer_id_mapping
WRONG_STATE = ErrorCode.invalid_txn_state
BAD_TIMEOUT = ErrorCode.invalid_transaction_timeout
UNKNOWN_PARTITION = ErrorCode.unknown_topic_or_partition
NOT_ATTEMPTED = ErrorCode.operation_not_attempted
LARGEST_TIMEOUT_MS = 900_000


@pytest.fixture
def transactional_id(topic: str) -> str:
    """Return a transactional id that no other test uses."""
    return f"id-of-{topic}"


@pytest.fixture
async def producer(wire: WireClient, topic: str, transactional_id: str) -> TransactionalProducer:
    """Return a producer of its second epoch, and make the topic."""
    await wire.create_topic(topic, partitions=2)
    producer = TransactionalProducer(wire, transactional_id)
    await producer.init()
    assert await producer.init(as_new=True) is NONE
    return producer


def renamed(
    producer: TransactionalProducer, *, producer_id: int | None = None, epoch: int | None = None
) -> Identity:
    return Identity(
        producer.transactional_id,
        producer.producer_id if producer_id is None else producer_id,
        producer.epoch if epoch is None else epoch,
    )


# --- InitProducerId


@pytest.mark.parametrize(
    ("timeout_ms", "wanted"),
    [
        (1, NONE),
        (LARGEST_TIMEOUT_MS, NONE),
        (LARGEST_TIMEOUT_MS + 1, BAD_TIMEOUT),
        (0, BAD_TIMEOUT),
        (-1, BAD_TIMEOUT),
    ],
)
async def test_timeouts_have_limits(
    wire: WireClient, transactional_id: str, timeout_ms: int, wanted: ErrorCode
) -> None:
    response = await wire.ask(init_request(transactional_id, timeout_ms=timeout_ms))
    assert response.error_code is wanted
    assert (response.producer_id >= 0) == (wanted is NONE)


async def test_timeouts_of_producers_without_transactions_do_not_matter(wire: WireClient) -> None:
    response = await wire.ask(init_request(None, timeout_ms=LARGEST_TIMEOUT_MS + 1))
    assert response.error_code is NONE


async def test_a_transactional_id_is_not_empty(wire: WireClient, topic: str) -> None:
    nobody = Identity("", 1, 0)
    wanted = ErrorCode.invalid_request
    response = await wire.ask(init_request(""))
    assert (response.error_code, response.producer_id, response.producer_epoch) == (wanted, -1, -1)
    response = await wire.ask(add_partitions_request(nobody, {topic: [0]}))
    assert added(response.results_by_topic_v3_and_below) == {(topic, 0): wanted}
    for request in (add_offsets_request(nobody, "group"), end_request(nobody, committed=True)):
        assert (await wire.ask(request)).error_code is wanted


async def test_a_transactional_id_is_any_text(wire: WireClient, topic: str) -> None:
    await wire.create_topic(topic)
    producer = TransactionalProducer(wire, f"{topic}\0\N{SNOWMAN}")
    assert await producer.init() is NONE
    await producer.produce(topic, b"a")
    assert await producer.end(committed=False) is NONE
    assert await read_log(wire, topic) == [(0, b"a"), (1, ABORT)]


@pytest.mark.parametrize("identity", [{"producer_id": 5}, {"epoch": 5}])
async def test_a_producer_id_and_its_epoch_come_together(
    wire: WireClient, transactional_id: str, identity: dict[str, int]
) -> None:
    for name in (transactional_id, None):
        response = await wire.ask(init_request(name, **identity))
        assert response.error_code is ErrorCode.invalid_request


@pytest.mark.parametrize(("version", "wanted"), [(3, OLD_EPOCH), (4, FENCED), (5, FENCED)])
async def test_an_identity_that_is_not_the_current_one_gets_no_epoch(
    producer: TransactionalProducer, version: int, wanted: ErrorCode
) -> None:
    for who in (
        renamed(producer, epoch=producer.epoch + 1),
        renamed(producer, producer_id=producer.producer_id + 10**9),
    ):
        request = init_request(
            who.transactional_id, producer_id=who.producer_id, epoch=who.epoch, version=version
        )
        response = await producer.wire.ask(request)
        assert response.error_code is wanted
        assert (response.producer_id, response.producer_epoch) == (-1, -1)
    assert await producer.init() is NONE  # and the current one was not disturbed


# --- AddPartitionsToTxn, AddOffsetsToTxn, EndTxn: whom they take


@pytest.mark.parametrize("version", range(6))
async def test_only_the_current_producer_is_taken(
    producer: TransactionalProducer, topic: str, version: int
) -> None:
    cases = [
        (renamed(producer, epoch=0), FENCED if version >= 2 else OLD_EPOCH),
        (renamed(producer, epoch=producer.epoch + 1), FENCED if version >= 2 else OLD_EPOCH),
        (renamed(producer, epoch=32_767), FENCED if version >= 2 else OLD_EPOCH),
        (renamed(producer, producer_id=producer.producer_id + 10**9), WRONG_ID),
        (Identity(f"no-such-{topic}", 0, 0), WRONG_ID),
    ]
    for who, wanted in cases:
        if version <= 3:
            response = await producer.wire.ask(
                add_partitions_request(who, {topic: [0]}, version=version)
            )
            assert added(response.results_by_topic_v3_and_below) == {(topic, 0): wanted}
        if version <= 4:
            request = add_offsets_request(who, "group", version=version)
            assert (await producer.wire.ask(request)).error_code is wanted
        request = end_request(who, committed=True, version=version)
        assert (await producer.wire.ask(request)).error_code is wanted


@pytest.mark.parametrize("transaction_version", [1, 2])
async def test_what_has_not_begun_cannot_be_committed(
    producer: TransactionalProducer, transaction_version: int
) -> None:
    producer.transaction_version = transaction_version
    assert await producer.end(committed=True) is WRONG_STATE


async def test_an_old_client_cannot_abort_what_has_not_begun(
    producer: TransactionalProducer,
) -> None:
    producer.transaction_version = 1
    assert await producer.end(committed=False) is WRONG_STATE


async def test_a_group_has_a_name(producer: TransactionalProducer) -> None:
    assert await producer.add_group("") is ErrorCode.invalid_group_id
    assert await producer.end(committed=True) is WRONG_STATE


# --- AddPartitionsToTxn: what it adds


async def test_all_partitions_are_added_or_none(
    producer: TransactionalProducer, topic: str
) -> None:
    # Given partitions of which some do not exist
    wanted = {topic: [0, 7, 1], f"no-such-{topic}": [0]}

    # When they are added together
    response = await producer.wire.ask(add_partitions_request(producer.identity, wanted))

    # Then these are named, the others were not tried, and nothing has begun
    assert added(response.results_by_topic_v3_and_below) == {
        (topic, 0): NOT_ATTEMPTED,
        (topic, 7): UNKNOWN_PARTITION,
        (topic, 1): NOT_ATTEMPTED,
        (f"no-such-{topic}", 0): UNKNOWN_PARTITION,
    }
    assert await producer.end(committed=True) is WRONG_STATE


async def test_adding_nothing_begins_nothing(producer: TransactionalProducer) -> None:
    response = await producer.wire.ask(add_partitions_request(producer.identity, {}))
    assert response.results_by_topic_v3_and_below == ()
    assert await producer.end(committed=True) is WRONG_STATE


@pytest.mark.parametrize("version", [4, 5])
async def test_transactions_that_are_added_to_together_answer_for_themselves(
    producer: TransactionalProducer, topic: str, version: int
) -> None:
    # Given a producer that is current, and one that is not
    old = renamed(producer, epoch=0)

    # When partitions are added to the transactions of both
    request = add_several_request(
        (producer.identity, {topic: [0, 1]}), (old, {topic: [0]}), version=version
    )
    response = await producer.wire.ask(request)

    # Then one begins
    assert response.error_code is NONE
    first, second = response.results_by_transaction
    assert added(first.topic_results) == {(topic, 0): NONE, (topic, 1): NONE}
    assert added(second.topic_results) == {(topic, 0): FENCED}
    assert await producer.end(committed=True) is NONE


async def test_whether_partitions_were_added_can_be_asked(
    producer: TransactionalProducer, topic: str
) -> None:
    async def ask(who: Identity, *partitions: int) -> dict[tuple[str, int], ErrorCode]:
        request = add_several_request((who, {topic: partitions}), verify_only=True)
        (result,) = (await producer.wire.ask(request)).results_by_transaction
        return added(result.topic_results)

    # Given a transaction that one of two partitions is part of
    assert await ask(producer.identity, 0) == {(topic, 0): ErrorCode.transaction_abortable}
    await producer.add(topic, 0)

    # When it is asked for both, then nothing is added by that
    for _ in range(2):
        assert await ask(producer.identity, 0, 1) == {
            (topic, 0): NONE,
            (topic, 1): ErrorCode.transaction_abortable,
        }
    assert await ask(producer.identity, 0, 7) == {
        (topic, 0): NOT_ATTEMPTED,
        (topic, 7): UNKNOWN_PARTITION,
    }
    assert await ask(renamed(producer, epoch=0), 0) == {(topic, 0): FENCED}
    assert await ask(renamed(producer, producer_id=10**9), 0) == {(topic, 0): WRONG_ID}


# --- WriteTxnMarkers


@pytest.mark.parametrize("version", [1, 2])
async def test_a_tool_aborts_a_transaction_as_a_whole(
    broker: BrokerProcess, producer: TransactionalProducer, topic: str, version: int
) -> None:
    # Given a transaction in two partitions
    for partition in (0, 1):
        await producer.produce(topic, b"a", partition=partition)

    # When a tool asks for the abort marker in one of them
    request = markers_request(producer.producer_id, producer.epoch, {topic: [0]}, version=version)
    async with await WireClient.connect(broker.bootstrap) as tool:
        assert marked(await tool.ask(request)) == {(topic, 0): NONE}

    # Then both have it, and the producer is fenced
    for partition in (0, 1):
        found = await read_log(producer.wire, topic, partition=partition)
        assert found == [(0, b"a"), (1, ABORT)]
    assert await producer.end(committed=True) is FENCED
    assert (await producer.produce(topic, b"b")).error_code is OLD_EPOCH


async def test_a_tool_tears_no_transaction(producer: TransactionalProducer, topic: str) -> None:
    # Given a transaction in one of two partitions
    await producer.produce(topic, b"a")

    async def ask(
        producer_id: int, epoch: int, *partitions: int, committed: bool = False
    ) -> list[ErrorCode]:
        topics = {topic: partitions}
        request = markers_request(producer_id, epoch, topics, committed=committed)
        return list(marked(await producer.wire.ask(request)).values())

    # When tools ask for markers that would tear it, or end something else
    producer_id, epoch = producer.producer_id, producer.epoch
    assert await ask(producer_id, epoch, 0, 1, committed=True) == [WRONG_STATE, NONE]
    assert await ask(producer_id, epoch, 1) == [NONE]
    assert await ask(producer_id, epoch, 7) == [UNKNOWN_PARTITION]
    assert await ask(producer_id, 0, 0) == [OLD_EPOCH]
    assert await ask(10**9, epoch, 0) == [WRONG_ID]

    # Then nothing happens to it
    assert await read_log(producer.wire, topic) == [(0, b"a")]
    assert await producer.end(committed=True) is NONE
