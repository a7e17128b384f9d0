"""Batches whose header does not say their largest timestamp, as Sarama's before March 2025."""

import time

import pytest
from kio.schema.errors import ErrorCode

from protocol.batch import batch_extents, read_header
from protocol.compression import Codec
from protocol.records import Record, build_batch
from tests.fuzz.batches import with_payload
from tests.support.wire import WireClient

NOW_MS = int(time.time() * 1000)  # when tests were collected: maybe an hour ago
DAY_MS = 24 * 3_600_000
NOT_SAID = -1
MAX_TIMESTAMP = -3


def batch(*deltas_ms: int, codec: int = Codec.NONE, base_ms: int = NOW_MS) -> bytes:
    """Return a batch of records so long after its first one, without its largest timestamp."""
    records = [
        Record(offset_delta=at, timestamp_delta_ms=delta_ms, value=b"v" * 50)
        for at, delta_ms in enumerate(deltas_ms)
    ]
    return build_batch(
        records, attributes=codec, base_timestamp_ms=base_ms, max_timestamp_ms=NOT_SAID
    )


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
async def test_records_are_found_by_time_whatever_their_producer_says(
    wire: WireClient, topic: str, codec: Codec
) -> None:
    # Given a batch whose latest record is its second
    await wire.create_topic(topic)

    # When it is produced
    assert (await wire.produce(topic, batch(0, 500, 100, codec=codec))).base_offset == 0

    # Then that is the maximum which readers are told, under a checksum that is right
    fetched = memoryview((await wire.fetch(topic, 0)).records)
    assert read_header(fetched).max_timestamp_ms == NOW_MS + 500
    assert len(list(batch_extents(fetched))) == 1
    # and records are found by time
    for asked, offset, timestamp_ms in [
        (NOW_MS, 0, NOW_MS),
        (NOW_MS + 1, 1, NOW_MS + 500),
        (NOW_MS + 501, -1, -1),
        (MAX_TIMESTAMP, 1, NOW_MS + 500),
    ]:
        found = await wire.list_offset(topic, asked)
        assert (found.offset, found.timestamp) == (offset, timestamp_ms)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        pytest.param(batch(0, 2 * DAY_MS), ErrorCode.invalid_timestamp, id="two days ahead"),
        pytest.param(batch(2**63 - 1), ErrorCode.invalid_timestamp, id="beyond all time"),
        pytest.param(
            with_payload(batch(0), b"no records at all"),
            ErrorCode.invalid_record,
            id="not to be read",
        ),
        pytest.param(
            with_payload(batch(0, codec=Codec.LZ4), b"no records at all"),
            ErrorCode.corrupt_message,
            id="not to be decompressed",
        ),
    ],
)
async def test_what_such_a_batch_holds_is_looked_at(
    wire: WireClient, topic: str, data: bytes, code: ErrorCode
) -> None:
    await wire.create_topic(topic)
    assert (await wire.produce(topic, data)).error_code == code
    assert (await wire.list_offset(topic, -1)).offset == 0


async def test_where_the_brokers_clock_counts_nothing_is_looked_at(
    wire: WireClient, topic: str
) -> None:
    # Given a topic of the broker's timestamps
    await wire.create_topic(topic, message_timestamp_type="LogAppendTime")

    # When a batch comes that says nothing of its own, nor could
    spoilt = with_payload(batch(0), b"no records at all")
    assert (await wire.produce(topic, spoilt)).error_code == ErrorCode.none

    # Then it has the broker's
    header = read_header(memoryview((await wire.fetch(topic, 0)).records))
    assert header.max_timestamp_ms >= NOW_MS
