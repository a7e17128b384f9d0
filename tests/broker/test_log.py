"""Produce, Fetch and ListOffsets over the wire: what a log promises."""

import asyncio
import time

import pytest
from kio.schema.errors import ErrorCode

from protocol.batch import TIMESTAMP_TYPE_BIT, batch_extents, read_header
from protocol.compression import Codec
from protocol.records import Record, build_batch, decode_records
from tests.fuzz.batches import with_payload
from tests.support.broker import BrokerProcess, start_broker
from tests.support.wire import WireClient, fetch_request

NOW_MS = int(time.time() * 1000)
LONG_MS = 60_000
SOON_S = 15.0
"""Much less than LONG_MS, and much more than a busy machine needs."""


def batch(*values: bytes, timestamp_ms: int = NOW_MS, codec: int = 0) -> bytes:
    records = [Record(offset_delta=at, value=value) for at, value in enumerate(values)]
    return build_batch(records, base_timestamp_ms=timestamp_ms, attributes=codec)


def offsets_of(records: bytes | None) -> list[tuple[int, int]]:
    """Return (base offset, record count) of each batch."""
    data = memoryview(records or b"")
    return [
        (read_header(data, start).base_offset, count) for start, _, count in batch_extents(data)
    ]


@pytest.mark.parametrize("version", range(3, 13))
async def test_every_version_of_produce_and_fetch_by_name(
    wire: WireClient, topic: str, version: int
) -> None:
    await wire.create_topic(topic)
    produced = await wire.produce(topic, batch(b"a", b"b"), version=version)
    assert (produced.error_code, produced.base_offset) == (ErrorCode.none, 0)
    fetched = await wire.fetch(topic, 0, version=max(version, 4))
    assert offsets_of(fetched.records) == [(0, 2)]
    assert fetched.high_watermark == fetched.last_stable_offset == 2


@pytest.mark.parametrize("version", range(13, 19))
async def test_every_version_of_fetch_by_topic_id(
    wire: WireClient, topic: str, version: int
) -> None:
    await wire.create_topic(topic)
    await wire.produce(topic, batch(b"a", b"b"))
    topic_id = await wire.topic_id(topic)
    response = await wire.ask(fetch_request([(topic_id, 0, 0)], version=version))
    assert response.responses[0].topic_id == topic_id
    assert offsets_of(response.responses[0].partitions[0].records) == [(0, 2)]


async def test_bytes_come_back_as_they_were_sent(wire: WireClient, topic: str) -> None:
    await wire.create_topic(topic)
    sent = batch(b"x" * 5000, codec=Codec.LZ4)
    await wire.produce(topic, batch(b"before"))
    await wire.produce(topic, sent)
    fetched = await wire.fetch(topic, 1)
    assert bytes(fetched.records)[16:] == sent[16:]  # only base offset and leader epoch are set


async def test_an_offset_inside_a_batch_returns_the_whole_batch(
    wire: WireClient, topic: str
) -> None:
    await wire.create_topic(topic)
    for _ in range(3):
        await wire.produce(topic, batch(b"1", b"2", b"3"))
    fetched = await wire.fetch(topic, 4)
    assert offsets_of(fetched.records) == [(3, 3), (6, 3)]


async def test_limits_hold_but_for_the_first_batch(wire: WireClient, topic: str) -> None:
    # Given batches of about 1,000 bytes in two partitions
    await wire.create_topic(topic, partitions=2)
    for partition in (0, 0, 0, 1):
        await wire.produce(topic, batch(b"x" * 1000), partition=partition)

    # When less than one batch is asked for
    # Then exactly one comes (KIP-74)
    tiny = await wire.fetch(topic, 0, partition_max_bytes=10)
    assert offsets_of(tiny.records) == [(0, 1)]
    tiny = await wire.fetch(topic, 0, max_bytes=10)
    assert offsets_of(tiny.records) == [(0, 1)]

    # When two and a half are asked for, two come
    some = await wire.fetch(topic, 0, partition_max_bytes=2700)
    assert offsets_of(some.records) == [(0, 1), (1, 1)]

    # When the response is full after the first partition, the second is empty but without error
    request = fetch_request([(topic, 0, 0), (topic, 1, 0)], max_bytes=10)
    response = await wire.ask(request)
    first, second = (answer.partitions[0] for answer in response.responses)
    assert offsets_of(first.records) == [(0, 1)]
    assert (second.error_code, second.records or b"") == (ErrorCode.none, b"")
    assert second.high_watermark == 1


async def test_a_long_poll_is_woken_by_a_commit(
    broker: BrokerProcess, wire: WireClient, topic: str
) -> None:
    # Given a consumer that waits at the end of the log
    await wire.create_topic(topic)
    async with await WireClient.connect(broker.bootstrap) as consumer:
        began = time.monotonic()
        poll = asyncio.create_task(consumer.fetch(topic, 0, max_wait_ms=LONG_MS))

        # When a record is committed
        await wire.produce(topic, batch(b"news"))
        fetched = await poll

    # Then it has it long before its wait is over
    assert offsets_of(fetched.records) == [(0, 1)]
    assert time.monotonic() - began < SOON_S


async def test_a_long_poll_ends_after_max_wait(wire: WireClient, topic: str) -> None:
    await wire.create_topic(topic)
    began = time.monotonic()
    fetched = await wire.fetch(topic, 0, max_wait_ms=300)
    took = time.monotonic() - began
    assert (fetched.error_code, fetched.records or b"") == (ErrorCode.none, b"")
    assert 0.3 <= took < SOON_S


async def test_min_bytes_gathers_commits(
    broker: BrokerProcess, wire: WireClient, topic: str
) -> None:
    await wire.create_topic(topic)
    async with await WireClient.connect(broker.bootstrap) as consumer:
        poll = asyncio.create_task(consumer.fetch(topic, 0, max_wait_ms=LONG_MS, min_bytes=2500))
        for _ in range(3):
            await wire.produce(topic, batch(b"x" * 1000))
        fetched = await poll
    assert offsets_of(fetched.records) == [(0, 1), (1, 1), (2, 1)]


async def test_min_bytes_are_reached_where_a_limit_lets_no_more_in(
    wire: WireClient, topic: str
) -> None:
    # Given more batches than a consumer takes at a time
    await wire.create_topic(topic)
    for _ in range(4):
        await wire.produce(topic, batch(b"x" * 1000))

    # When it wants as many bytes as its limit is, and batches do not add up to it
    # Then it has what there is room for, and waits for nothing
    began = time.monotonic()
    waits = {"max_wait_ms": LONG_MS, "min_bytes": 2700}
    for limits in ({"partition_max_bytes": 2700}, {"max_bytes": 2700}, {"max_bytes": 2600}):
        fetched = await wire.fetch(topic, 0, **waits, **limits)
        assert offsets_of(fetched.records) == [(0, 1), (1, 1)]
    assert time.monotonic() - began < SOON_S


async def test_offsets_by_time(wire: WireClient, topic: str) -> None:
    # Given three batches a second apart, one of them compressed, with a record out of order
    await wire.create_topic(topic)
    await wire.produce(topic, batch(b"0", b"1", timestamp_ms=NOW_MS - 3000))
    late = build_batch(
        [
            Record(offset_delta=0, timestamp_delta_ms=0),
            Record(offset_delta=1, timestamp_delta_ms=500),
            Record(offset_delta=2, timestamp_delta_ms=100),
        ],
        base_timestamp_ms=NOW_MS - 2000,
        attributes=Codec.ZSTD,
    )
    await wire.produce(topic, late)
    await wire.produce(topic, batch(b"5", timestamp_ms=NOW_MS - 1800))

    async def find(timestamp_ms: int) -> tuple[int, int]:
        found = await wire.list_offset(topic, timestamp_ms)
        return found.offset, found.timestamp

    # Then each time finds the first record at or after it
    assert await find(0) == (0, NOW_MS - 3000)
    assert await find(NOW_MS - 2999) == (2, NOW_MS - 2000)
    assert await find(NOW_MS - 1999) == (3, NOW_MS - 1500)
    assert await find(NOW_MS - 1499) == (-1, -1)
    assert await find(-3) == (3, NOW_MS - 1500)
    assert await find(-2) == (0, -1)
    assert await find(-1) == (6, -1)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
async def test_records_that_nobody_can_read_are_found_by_the_time_of_their_batch(
    wire: WireClient, topic: str, codec: Codec
) -> None:
    # Given a batch with no records behind its header, between others that are earlier
    await wire.create_topic(topic)
    await wire.produce(topic, batch(b"0", timestamp_ms=NOW_MS - 9000))
    garbage = batch(b"1", b"2", timestamp_ms=NOW_MS - 5000, codec=codec)
    await wire.produce(topic, with_payload(garbage, b"no records at all"))
    await wire.produce(topic, batch(b"3", timestamp_ms=NOW_MS - 7000))

    async def find(timestamp_ms: int) -> tuple[int, int, int]:
        found = await wire.list_offset(topic, timestamp_ms)
        return found.error_code, found.offset, found.timestamp

    # When a time is looked for that only it can have, then it is the answer, and no error
    assert await find(NOW_MS - 8000) == (ErrorCode.none, 1, NOW_MS - 5000)
    assert await find(-3) == (ErrorCode.none, 1, NOW_MS - 5000)
    assert await find(NOW_MS - 4999) == (ErrorCode.none, -1, -1)


async def test_log_append_time_is_the_brokers_clock(wire: WireClient, topic: str) -> None:
    await wire.create_topic(topic, message_timestamp_type="LogAppendTime")
    before_ms = int(time.time() * 1000)
    produced = await wire.produce(topic, batch(b"a", timestamp_ms=1000))
    fetched = await wire.fetch(topic, 0)
    header = read_header(memoryview(fetched.records))
    assert header.is_log_append_time
    assert before_ms <= header.max_timestamp_ms <= int(time.time() * 1000)
    assert round(produced.log_append_time.timestamp() * 1000) == header.max_timestamp_ms
    assert len(list(batch_extents(memoryview(fetched.records)))) == 1  # its checksum is right
    assert (await wire.list_offset(topic, before_ms)).offset == 0


async def test_a_duplicate_is_told_when_the_first_copy_was_appended(
    wire: WireClient, topic: str
) -> None:
    # Given a batch of an idempotent producer that has the broker's time
    await wire.create_topic(topic, message_timestamp_type="LogAppendTime")
    records = [Record(offset_delta=0, value=b"a")]
    data = build_batch(records, producer_id=5, producer_epoch=0, base_sequence=0)
    first = await wire.produce(topic, data)

    # When it is repeated later, then the answer has the time that readers see
    again = await wire.produce(topic, data)
    assert (again.error_code, again.base_offset) == (ErrorCode.none, 0)
    assert again.log_append_time == first.log_append_time
    fetched = memoryview((await wire.fetch(topic, 0)).records)
    appended_ms = round(again.log_append_time.timestamp() * 1000)
    assert appended_ms == read_header(fetched).max_timestamp_ms


async def test_records_keep_their_time_whoever_their_producer_says_that_it_is_of(
    wire: WireClient, topic: str
) -> None:
    # Given a batch that says that its timestamps are the broker's, where they are the producers'
    await wire.create_topic(topic)
    records = [Record(offset_delta=at, timestamp_delta_ms=9 * at) for at in range(2)]
    claiming = build_batch(
        records, base_timestamp_ms=NOW_MS, attributes=TIMESTAMP_TYPE_BIT | Codec.LZ4
    )

    # When it is produced
    produced = await wire.produce(topic, claiming)
    assert (produced.error_code, produced.log_append_time) == (ErrorCode.none, None)

    # Then nobody is told so, under a checksum that is right, and each record is found by its own
    fetched = memoryview((await wire.fetch(topic, 0)).records)
    header = read_header(fetched)
    assert (header.attributes, header.max_timestamp_ms) == (Codec.LZ4, NOW_MS + 9)
    assert len(list(batch_extents(fetched))) == 1
    for timestamp_ms, offset in ((NOW_MS, 0), (NOW_MS + 1, 1)):
        assert (await wire.list_offset(topic, timestamp_ms)).offset == offset


@pytest.mark.parametrize(
    ("timestamp_type", "timestamp_ms"),
    [("LogAppendTime", NOW_MS), ("CreateTime", -1)],
    ids=["of the broker's time", "without a time"],
)
async def test_a_batch_that_says_to_have_the_brokers_time_has_to_have_its_own(
    wire: WireClient, topic: str, timestamp_type: str, timestamp_ms: int
) -> None:
    await wire.create_topic(topic, message_timestamp_type=timestamp_type)
    claiming = batch(b"a", timestamp_ms=timestamp_ms, codec=TIMESTAMP_TYPE_BIT)
    produced = await wire.produce(topic, claiming)
    assert (produced.error_code, produced.base_offset) == (ErrorCode.invalid_timestamp, -1)
    assert "LogAppendTime" in produced.error_message
    assert (await wire.list_offset(topic, -1)).offset == 0


async def test_what_is_acknowledged_is_there_after_kill_9(
    tmp_path_factory: pytest.TempPathFactory, topic: str
) -> None:
    # Given a broker with acknowledged records, one of them old
    data = tmp_path_factory.mktemp("killed")
    broker = start_broker(data)
    async with await WireClient.connect(broker.bootstrap) as wire:
        await wire.create_topic(topic)
        for number in range(20):
            produced = await wire.produce(topic, batch(b"%d" % number))
            assert produced.base_offset == number

    # When it is killed and started again
    broker.kill()
    broker = start_broker(data)

    # Then every record is at its offset, read from the object store
    try:
        async with await WireClient.connect(broker.bootstrap) as wire:
            fetched = await wire.fetch(topic, 0)
            assert offsets_of(fetched.records) == [(number, 1) for number in range(20)]
            data_view = memoryview(fetched.records)
            values = [
                record.value
                for start, size, count in batch_extents(data_view)
                for record in decode_records(data_view[start + 61 : start + size], count)
            ]
            assert values == [b"%d" % number for number in range(20)]
            assert (await wire.produce(topic, batch(b"next"))).base_offset == 20
    finally:
        assert broker.stop() == 0
