"""Produce, Fetch and ListOffsets with transactions over the wire: what each version is told."""

from dataclasses import replace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.static.primitive import i8

from protocol.batch import TRANSACTIONAL_BIT, batch_extents, read_header
from protocol.records import Record, build_batch
from tests.support.broker import BrokerProcess, start_broker
from tests.support.transaction_wire import READ_COMMITTED, TransactionalProducer
from tests.support.wire import (
    WireClient,
    build,
    fetch_request,
    milliseconds,
    produce_request,
    request_entities,
)

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
VERSIONS = range(3, 14)


@pytest.fixture
async def producer(wire: WireClient, topic: str) -> TransactionalProducer:
    """Return a producer with an epoch, and make the topic."""
    await wire.create_topic(topic, partitions=2)
    producer = TransactionalProducer(wire, f"id-of-{topic}")
    assert await producer.init() is ErrorCode.none
    return producer


def batch_of(
    producer: TransactionalProducer,
    *values: bytes,
    sequence: int = 0,
    transactional: bool = True,
    timestamp_ms: int = 1,
) -> bytes:
    return build_batch(
        [Record(offset_delta=at, value=value) for at, value in enumerate(values)],
        attributes=TRANSACTIONAL_BIT if transactional else 0,
        base_timestamp_ms=timestamp_ms,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=sequence,
    )


async def produce(
    producer: TransactionalProducer,
    topic: str,
    batch: bytes,
    *,
    version: int,
    partition: int = 0,
    transactional_id: str | None = "its own",
) -> Any:
    """Return the partition's part of the answer."""
    named = producer.transactional_id if transactional_id == "its own" else transactional_id
    request = produce_request(
        await producer.wire.topic_id(topic) if version >= 13 else topic,
        batch,
        partition=partition,
        version=version,
        transactional_id=named,
    )
    return (await producer.wire.ask(request)).responses[0].partition_responses[0]


async def fetch(wire: WireClient, topic: str, offset: int = 0, *, version: int = 12) -> Any:
    """Return the partition's part of the answer, for read_committed."""
    named = await wire.topic_id(topic) if version >= 13 else topic
    request = replace(
        fetch_request([(named, 0, offset)], version=version), isolation_level=i8(READ_COMMITTED)
    )
    return (await wire.ask(request)).responses[0].partitions[0]


async def list_offset(
    wire: WireClient, topic: str, timestamp: int, *, committed: bool, version: int = 7
) -> int:
    module = request_entities(2, version)
    partition = build(
        module,
        "ListOffsetsPartition",
        partition_index=0,
        current_leader_epoch=-1,
        timestamp=timestamp,
    )
    request = build(
        module,
        "ListOffsetsRequest",
        replica_id=-1,
        isolation_level=int(committed),
        topics=(module.ListOffsetsTopic(name=topic, partitions=(partition,)),),
        timeout=milliseconds(1000),
    )
    answer = (await wire.ask(request)).topics[0].partitions[0]
    assert answer.error_code is ErrorCode.none
    return int(answer.offset)


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_batch_needs_a_partition_that_is_added_or_adds_it(
    producer: TransactionalProducer, topic: str, version: int
) -> None:
    # When a batch comes for a partition that is no part of the transaction
    answer = await produce(producer, topic, batch_of(producer, b"a"), version=version)

    # Then new clients have added it by that, and others hear of it in the words that they know
    if version >= 12:
        assert (answer.error_code, answer.base_offset) == (ErrorCode.none, 0)
    elif version == 11:
        assert answer.error_code is ErrorCode.transaction_abortable
    else:
        assert answer.error_code is ErrorCode.invalid_txn_state

    # And once it is added, all of them may write
    assert await producer.add(topic, 1) is ErrorCode.none
    batch = batch_of(producer, b"a", b"b")
    for _ in range(2):  # the second one is a duplicate, with its first offset
        answer = await produce(producer, topic, batch, version=version, partition=1)
        assert (answer.error_code, answer.base_offset) == (ErrorCode.none, 0)


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_batch_of_a_transaction_names_it(
    producer: TransactionalProducer, topic: str, version: int
) -> None:
    await producer.add(topic, 0)
    batch = batch_of(producer, b"a")
    answer = await produce(producer, topic, batch, version=version, transactional_id=None)
    assert answer.error_code is ErrorCode.transactional_id_authorization_failed

    # And by an id that one can have
    for impossible in ("", "x" * 513):
        answer = await produce(producer, topic, batch, version=version, transactional_id=impossible)
        assert answer.error_code is ErrorCode.invalid_request

    # And it has a producer id
    anonymous = TransactionalProducer(producer.wire, producer.transactional_id)
    batch = batch_of(anonymous, b"a", sequence=-1)
    answer = await produce(producer, topic, batch, version=version)
    assert answer.error_code is ErrorCode.invalid_record


@pytest.mark.parametrize("version", VERSIONS)
async def test_no_other_batch_goes_into_an_open_transaction(
    producer: TransactionalProducer, topic: str, version: int
) -> None:
    # Given a transaction with a record
    await producer.add(topic, 0)
    answer = await produce(producer, topic, batch_of(producer, b"a"), version=version)
    assert answer.error_code is ErrorCode.none

    # When its producer writes a batch that is of none
    plain = batch_of(producer, b"b", sequence=1, transactional=False)
    answer = await produce(producer, topic, plain, version=version)

    # Then that is refused, and the transaction goes on
    assert answer.error_code is ErrorCode.invalid_txn_state
    batch = batch_of(producer, b"b", sequence=1)
    answer = await produce(producer, topic, batch, version=version)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.none, 1)


@pytest.mark.parametrize("version", VERSIONS)
async def test_what_a_stranger_writes_is_refused(
    producer: TransactionalProducer, topic: str, version: int
) -> None:
    # Given a producer whose epoch was given to another, and a producer id that nobody has
    await producer.add(topic, 0)
    fenced = TransactionalProducer(
        producer.wire, producer.transactional_id, producer_id=producer.producer_id
    )
    fenced.epoch = producer.epoch
    await producer.init(as_new=True)
    await producer.add(topic, 0)
    stranger = TransactionalProducer(producer.wire, "nobody", producer_id=1 << 40, epoch=0)

    # Then neither can write
    answer = await produce(fenced, topic, batch_of(fenced, b"a"), version=version)
    assert answer.error_code is ErrorCode.invalid_producer_epoch
    answer = await produce(stranger, topic, batch_of(stranger, b"a"), version=version)
    assert answer.error_code is ErrorCode.invalid_producer_id_mapping


@pytest.mark.parametrize("version", range(4, 19))
async def test_every_version_of_fetch_names_aborted_transactions(
    producer: TransactionalProducer, topic: str, version: int
) -> None:
    # Given an aborted transaction, a plain record, and an open transaction
    wire = producer.wire
    await producer.produce(topic, b"a", b"b")
    await producer.end(committed=False)
    await wire.produce(topic, build_batch([Record(offset_delta=0)], base_timestamp_ms=1))
    producer_id = producer.producer_id
    await producer.produce(topic, b"c")

    # When it is read for read_committed, and by any other reader
    committed = await fetch(wire, topic, version=version)
    named = await wire.topic_id(topic) if version >= 13 else topic
    any_record = (await wire.ask(fetch_request([(named, 0, 0)], version=version))).responses[0]
    uncommitted = any_record.partitions[0]

    # Then the first gets what is stable, with what to skip; the other gets everything
    def offsets(answer: Any) -> list[int]:
        data = memoryview(answer.records)
        return [read_header(data, start).base_offset for start, _, _ in batch_extents(data)]

    assert offsets(committed) == [0, 2, 3]
    assert offsets(uncommitted) == [0, 2, 3, 4]
    (aborted,) = committed.aborted_transactions
    assert (aborted.producer_id, aborted.first_offset) == (producer_id, 0)
    assert uncommitted.aborted_transactions is None
    for answer in (committed, uncommitted):
        assert (answer.last_stable_offset, answer.high_watermark) == (4, 5)
    assert list((await fetch(wire, topic, 3, version=version)).aborted_transactions) == []


@pytest.mark.parametrize("version", range(2, 12))
async def test_offsets_for_readers_of_committed_records(
    producer: TransactionalProducer, topic: str, version: int
) -> None:
    # Given a record of second 1, and an open transaction with one of second 2
    wire = producer.wire
    plain = build_batch([Record(offset_delta=0)], base_timestamp_ms=1000)
    await wire.produce(topic, plain)
    opened = batch_of(producer, b"a", timestamp_ms=2000)
    assert (await produce(producer, topic, opened, version=12)).error_code is ErrorCode.none

    async def both(timestamp: int) -> tuple[int, int]:
        return (
            await list_offset(wire, topic, timestamp, committed=True, version=version),
            await list_offset(wire, topic, timestamp, committed=False, version=version),
        )

    # Then it is not there yet for those who read what is committed
    assert await both(LATEST) == (1, 2)
    assert await both(EARLIEST) == (0, 0)
    assert await both(1000) == (0, 0)
    assert await both(1500) == (-1, 1)
    if version >= 7:
        assert await both(MAX_TIMESTAMP) == (-1, 1)

    # When it is committed, it is
    await producer.end(committed=True)
    assert await both(LATEST) == (3, 3)
    assert await both(1500) == (1, 1)


async def test_the_first_version_of_list_offsets_knows_no_isolation(
    producer: TransactionalProducer, topic: str
) -> None:
    await producer.produce(topic, b"a")
    assert await list_offset(producer.wire, topic, LATEST, committed=False, version=1) == 1


async def test_an_open_transaction_outlives_kill_9(
    tmp_path_factory: pytest.TempPathFactory, topic: str
) -> None:
    # Given a broker with an aborted transaction, and an open one
    data = tmp_path_factory.mktemp("killed")
    broker: BrokerProcess = start_broker(data)
    async with await WireClient.connect(broker.bootstrap) as wire:
        await wire.create_topic(topic)
        first, second = TransactionalProducer(wire, "a"), TransactionalProducer(wire, "b")
        await first.init()
        await second.init()
        await first.produce(topic, b"a")
        await first.end(committed=False)
        await second.produce(topic, b"b")
        assert (await fetch(wire, topic)).last_stable_offset == 2

    # When it is killed and started again
    broker.kill()
    broker = start_broker(data)

    # Then all of it is as it was, and the open transaction goes on
    try:
        async with await WireClient.connect(broker.bootstrap) as wire:
            fetched = await fetch(wire, topic)
            assert (fetched.last_stable_offset, fetched.high_watermark) == (2, 3)
            assert [one.producer_id for one in fetched.aborted_transactions] == [first.producer_id]
            second.wire = wire
            await second.produce(topic, b"c")
            await second.end(committed=True)
            fetched = await fetch(wire, topic, 2)
            assert (fetched.last_stable_offset, fetched.high_watermark) == (5, 5)
            assert list(fetched.aborted_transactions) == []
    finally:
        assert broker.stop() == 0
