"""Log compaction: what stays, what goes, and when (as Apache Kafka's log cleaner does it)."""

from dataclasses import replace

import pytest

from protocol.batch import TIMESTAMP_TYPE_BIT, read_header
from protocol.compression import Codec
from protocol.records import Record, build_batch
from tests.storage.compacted_log import records_of
from tests.storage.compaction_world import POLICY, START_MS, World, uncompressed_garbage


async def test_the_latest_value_of_each_key_stays_at_its_offset() -> None:
    # Given a log in which keys come again
    world = await World().open()
    await world.produce([(b"a", b"1"), (b"b", b"1"), (b"c", b"1")])
    await world.produce([(b"a", b"2"), (b"d", b"1")], codec=Codec.ZSTD)
    await world.produce([(b"b", b"2"), (b"b", b"3")], codec=Codec.LZ4)
    await world.build()

    # When it is compacted
    assert await world.compact() == 1

    # Then each key has its latest record, byte by byte, where it was
    read = await world.read()
    assert [(one.offset, one.key, one.value) for one in read] == [
        (2, b"c", b"1"),
        (3, b"a", b"2"),
        (4, b"d", b"1"),
        (6, b"b", b"3"),
    ]
    assert all(one == world.committed[one.offset] for one in read)


async def test_a_batch_keeps_its_offsets_and_codec_and_gets_the_timestamp_of_what_is_left() -> None:
    # Given a batch whose records have the timestamps 0, 100 and 200
    world = await World().open()
    await world.produce([(b"a", b"1"), (b"b", b"1"), (b"c", b"1")], codec=Codec.SNAPPY)
    await world.produce([(b"c", b"2")])
    await world.build()

    # When its last record goes
    await world.compact()

    # Then
    header = read_header((await world.batches())[0])
    assert (header.base_offset, header.last_offset_delta, header.record_count) == (0, 2, 2)
    assert header.codec == Codec.SNAPPY
    assert header.max_timestamp_ms == START_MS + 100
    assert header.base_timestamp_ms == START_MS


async def test_the_time_of_a_batch_that_the_broker_stamped_stays() -> None:
    world = await World().open()
    await world.produce([(b"a", b"1"), (b"b", b"1")], attributes=TIMESTAMP_TYPE_BIT)
    await world.produce([(b"b", b"2")])
    await world.build()
    before = read_header((await world.batches())[0])
    await world.compact()
    header = read_header((await world.batches())[0])
    assert header.record_count == 1
    assert header.max_timestamp_ms == before.max_timestamp_ms


@pytest.mark.parametrize(
    ("delta_ms", "expected_ms"),
    [(10**15, START_MS), (2**63 - 1, START_MS), (-(2**63), -1), (-7, START_MS - 7)],
)
async def test_a_batch_never_gets_a_later_timestamp_than_it_had_and_none_before_time(
    delta_ms: int, expected_ms: int
) -> None:
    # Given a batch whose header tells another time than the record that is left of it
    world = await World().open()
    records = [
        Record(offset_delta=0, key=b"a", value=b"1"),
        Record(offset_delta=1, timestamp_delta_ms=delta_ms, key=b"b", value=b"1"),
    ]
    await world.produce_bytes(
        build_batch(records, base_timestamp_ms=START_MS, max_timestamp_ms=START_MS)
    )
    await world.produce([(b"a", b"2")])
    await world.build()

    # When it is compacted
    assert await world.compact() == 1

    # Then retention goes by no later time than before
    header = read_header((await world.batches())[0])
    assert (header.record_count, header.max_timestamp_ms) == (1, expected_ms)
    assert [row.max_timestamp_ms for row in await world.rows()] == [START_MS]


async def test_an_empty_value_is_no_tombstone_and_a_record_without_key_goes() -> None:
    world = await World().open()
    await world.produce([(b"a", b""), (None, b"lost"), (b"", b"empty key")])
    await world.build()
    for _ in range(3):
        await world.compact()
        await world.produce([(b"x", b"")])
        await world.build()
        world.now_ms += 10_000
    read = await world.latest()
    assert read[b"a"] == b""
    assert read[b""] == b"empty key"
    assert all(one.key is not None for one in await world.read())


async def test_a_tombstone_goes_delete_retention_ms_after_the_first_compaction_that_met_it() -> (
    None
):
    # Given a deleted key
    world = await World().open()
    await world.produce([(b"a", b"1")])
    deleted = await world.produce([(b"a", None), (b"b", b"1")])
    await world.build()
    world.now_ms += 100_000  # time before the first compaction does not count

    async def dirty_again() -> None:
        await world.produce([(b"x", b"1")])
        await world.build()
        assert await world.compact() == 1

    # When it is compacted for the first time, and again just before the horizon
    await world.compact()
    assert await world.horizons() == {deleted: world.now_ms + 1_000}
    world.now_ms += 999
    await dirty_again()

    # Then the old value is gone, and the tombstone is there
    assert await world.latest() == {b"a": None, b"b": b"1", b"x": b"1"}

    # When the horizon has come
    world.now_ms += 1
    await dirty_again()

    # Then it goes, too; other records of its batch stay
    assert await world.latest() == {b"b": b"1", b"x": b"1"}
    assert await world.horizons() == {}


async def test_records_younger_than_min_compaction_lag_stay() -> None:
    world = await World(replace(POLICY, min_compaction_lag_ms=5_000)).open()
    await world.produce([(b"a", b"1"), (b"a", b"2")])
    await world.build()
    world.now_ms += 4_000
    assert await world.compact() == 0
    assert len(await world.read()) == 2
    world.now_ms += 2_000
    assert await world.compact() == 1
    assert [one.offset for one in await world.read()] == [1]


async def test_records_without_a_timestamp_are_as_old_as_their_object() -> None:
    # Given records that do not say when they were made, and were stored and built just now
    world = await World(replace(POLICY, min_compaction_lag_ms=5_000)).open()
    for value in (b"1", b"2"):
        await world.produce([(b"a", value)], timestamp_ms=-1)
    await world.build()

    # Then they stay until they have been there for min.compaction.lag.ms
    world.now_ms += 4_000
    assert await world.compact() == 0
    world.now_ms += 2_000
    assert await world.compact() == 1
    assert [one.offset for one in await world.read()] == [1]


async def test_a_reader_at_the_end_of_a_row_learns_that_nothing_more_is_there() -> None:
    # Given a row that ends with a tombstone that has had its time
    world = await World().open()
    await world.produce([(b"a", b"1")])
    await world.produce([(b"a", b"2"), (b"gone", None)])
    await world.build()
    await world.compact()
    await world.produce([(b"gone", None)])
    await world.build()
    last = (await world.rows())[-1]
    await world.compact()
    world.now_ms += 10_000
    await world.produce([(b"z", b"1")])

    # When it goes
    await world.build()
    await world.compact()

    # Then a batch without records is in its place, up to the end of the row
    assert last.end_offset == 3
    assert {one.key for one in await world.read()} == {b"a", b"z"}
    headers = [read_header(batch) for batch in await world.batches()]
    ends = {header.base_offset + header.last_offset_delta for header in headers}
    assert ends >= {row.end_offset for row in await world.rows()}


async def test_a_batch_that_cannot_be_read_stays_and_is_counted() -> None:
    # Given a batch whose payload is not what its codec writes, between others
    world = await World().open()
    await world.produce([(b"a", b"1")])
    garbage = uncompressed_garbage()
    await world.produce_bytes(garbage)
    await world.produce([(b"a", b"2"), (b"b", b"1")])
    await world.build()

    # When
    compactor = world.compactor()
    assert await compactor.compact(world.partition) == 1

    # Then the others are compacted
    assert compactor.counts.unreadable_batches == 1
    batches = await world.batches()
    assert [read_header(batch).base_offset for batch in batches] == [1, 2]
    assert batches[0][8:] == garbage[8:]


@pytest.mark.parametrize("delta", [1, 1_000, 2**31 - 1, 2**33])
@pytest.mark.parametrize("capacity", [1, 1_000])
async def test_a_record_behind_the_end_of_its_batch_brings_no_deleted_key_back(
    delta: int, capacity: int
) -> None:
    # Given a record that says that it lies far behind its batch, between values of a key that is
    # deleted in the end, and a map with room for few keys, or for all
    world = await World(key_map_bytes=21 * (capacity * 2)).open()
    await world.produce([(b"k", b"old")])
    strange = build_batch([Record(offset_delta=delta, key=b"x", value=b"1")], last_offset_delta=0)
    await world.produce_bytes(strange)
    for number in range(3):
        await world.produce([(b"k", b"%d" % number)])
    deleted = await world.produce([(b"k", None)])
    await world.build()

    # When it is compacted again and again, until long after the tombstone's horizon
    for _ in range(3):
        await world.compact()
        world.now_ms += 1_000_000
        await world.produce([(b"k2", b"x")])
        await world.build()

    # Then the strange batch is kept as it is, and of that key nothing but the tombstone
    batches = await world.batches()
    (kept,) = [batch for batch in batches if batch[8:] == strange[8:]]
    batches.remove(kept)
    read = [one for batch in batches for one in records_of(batch)]
    assert [one.offset for one in read if one.key == b"k"] == [deleted]


async def test_a_tombstone_behind_a_batch_that_cannot_be_read_stays() -> None:
    # Given a batch that cannot be read, which may have a value of a key deleted later, and before
    # it another deleted key; each in a segment of its own
    world = await World().open()
    world.set_segment_bytes(1)
    before = await world.produce([(b"before", None)])
    await world.build()
    await world.produce_bytes(uncompressed_garbage())
    await world.build()
    behind = await world.produce([(b"a", None)])
    await world.build()
    await world.compact()
    assert set(await world.horizons()) == {before, behind}

    # When the horizons have come
    world.now_ms += 10_000
    await world.produce([(b"x", b"1")])
    await world.build()
    await world.compact()

    # Then only what is before it goes
    assert set(await world.horizons()) == {behind}
