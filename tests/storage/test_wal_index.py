"""The index of the writer's objects: read as written, no damage unnoticed, and what it says."""

import asyncio
import struct
from uuid import UUID

import crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.batch import read_header
from protocol.ids import Partition
from storage.config import WriterConfig
from storage.errors import CorruptObject
from storage.metadata.port import SegmentLookup
from storage.wal_index import (
    FOOTER_BYTES,
    MAGIC,
    NOT_APPENDED,
    UNKNOWN_OFFSET,
    WalEnding,
    WalIndex,
    WalRun,
    encode_index,
    parse_index,
    parse_index_length,
)
from tests.contracts.metadata_stores import a_batch, commit
from tests.storage.test_writer import NOW_MS, WRITER_ID, running

U32 = st.integers(0, 2**32 - 1)
VERSIONS = (b"SHWAL\r\n\x01", b"SHWAL\r\n\x02", b"SHWAL\r\n\x03")
I64 = st.integers(-(2**63), 2**63 - 1)


@st.composite
def indexes(draw: st.DrawFn) -> WalIndex:
    topics = draw(st.lists(st.tuples(st.uuids(), st.text(max_size=20)), min_size=1, max_size=4))
    runs: list[WalRun] = []
    start = 0
    for _ in range(draw(st.integers(0, 5))):
        length = draw(U32)
        runs.append(
            WalRun(
                topic=draw(st.integers(0, len(topics) - 1)),
                partition=draw(U32),
                start=start,
                length=length,
                record_count=draw(U32),
                expected_offset=draw(I64),
                leader_epoch=draw(st.integers(-(2**31), 2**31 - 1)),
                max_timestamp_ms=draw(I64),
            )
        )
        start += length
    places = st.tuples(
        st.integers(0, len(topics) - 1),
        U32,
        st.integers(0, 2**64 - 1),
        st.lists(I64, max_size=3).map(tuple),
    )
    endings = st.builds(
        WalEnding,
        topic=st.integers(0, len(topics) - 1),
        partition=U32,
        offset=I64,
        producer_id=I64,
        producer_epoch=st.integers(-(2**15), 2**15 - 1),
        committed=st.booleans(),
        timestamp_ms=I64,
    )
    return WalIndex(
        writer_id=draw(st.uuids()),
        sequence=draw(st.integers(0, 2**64 - 1)),
        written_ms=draw(I64),
        topics=tuple(topics),
        runs=tuple(runs),
        places=tuple(draw(st.lists(places, max_size=3))),
        endings=tuple(draw(st.lists(endings, max_size=3))),
    )


@given(index=indexes(), before=st.binary(max_size=100))
def test_what_was_written_is_read_again(index: WalIndex, before: bytes) -> None:
    data = encode_index(index)
    assert parse_index(data) == index
    assert parse_index_length((before + data)[-FOOTER_BYTES:]) == len(data)


@given(index=indexes(), flip=st.integers(1, 255), data=st.data())
def test_no_changed_byte_goes_unnoticed(index: WalIndex, flip: int, data: st.DataObject) -> None:
    content = bytearray(encode_index(index))
    content[data.draw(st.integers(0, len(content) - 1))] ^= flip
    with pytest.raises(CorruptObject):
        parse_index(content)


@given(index=indexes(), data=st.data())
def test_nothing_shorter_passes(index: WalIndex, data: st.DataObject) -> None:
    content = encode_index(index)
    cut = data.draw(st.integers(1, len(content)))
    with pytest.raises(CorruptObject):
        parse_index(content[cut:])
    with pytest.raises(CorruptObject):
        parse_index(content[:-cut])
    with pytest.raises(CorruptObject):
        parse_index(bytes(cut) + content)


@given(tables=st.binary(max_size=120), version=st.sampled_from(VERSIONS))
def test_tables_that_make_no_sense_are_refused_whatever_their_checksum(
    tables: bytes, version: bytes
) -> None:
    footer = struct.pack(">16sQqQI", bytes(16), 0, 0, 1, len(tables) + FOOTER_BYTES)
    checksum = struct.pack(">I", crc32c.crc32c(tables + footer))
    with pytest.raises(CorruptObject):
        parse_index(tables + footer + checksum + version)


def test_a_newer_version_is_named() -> None:
    with pytest.raises(CorruptObject, match="version 4"):
        parse_index_length(bytes(FOOTER_BYTES - 8) + b"SHWAL\r\n\x04")


@pytest.mark.parametrize("version", VERSIONS)
def test_the_bytes_are_those_that_the_docstring_specifies(version: bytes) -> None:
    run = WalRun(0, 2, 0, 70, 3, UNKNOWN_OFFSET, 4, 5)
    earlier = ((0, 9, 3, (40, NOT_APPENDED)), (0, 8, 4, (50,)))
    index = WalIndex(
        writer_id=UUID(int=1),
        sequence=6,
        written_ms=7,
        topics=((UUID(int=8), "é"),),
        runs=(run,),
        places=earlier if version[-1] > 1 else (),
        endings=(WalEnding(0, 9, 60, 77, 4, True, 8),) if version == MAGIC else (),
    )
    topics = struct.pack(">I", 1) + UUID(int=8).bytes + struct.pack(">H", 2) + "é".encode()
    runs = struct.pack(">I", 1) + struct.pack(">IIQIQqiq", 0, 2, 0, 70, 3, -1, 4, 5)
    places = struct.pack(">IIIIIQQIIqqq", 2, 0, 0, 9, 8, 3, 4, 2, 1, 40, -1, 50)
    endings = struct.pack(">IIIqqhBq", 1, 0, 9, 60, 77, 4, 1, 8)
    tables = topics + runs + (places if version[-1] > 1 else b"")
    tables += endings if version == MAGIC else b""
    footer = UUID(int=1).bytes + struct.pack(">QqQ", 6, 7, 70)
    footer += struct.pack(">I", len(tables) + 56)
    checksum = crc32c.crc32c(tables + footer)
    content = tables + footer + struct.pack(">I", checksum) + version
    assert parse_index(content) == index
    if version[-1] > 1:
        assert encode_index(index) == content


async def test_the_writer_leaves_an_index_in_each_object() -> None:
    async with running() as bench:
        # Given an object on its way, so that what follows is gathered in the next one, and a log
        # with records of another broker
        await commit(bench.metadata, [a_batch(bench.logs[0].partition, 0, records=40)])
        bench.objects.gate.clear()
        first = bench.append(2)
        await asyncio.sleep(0)
        assert bench.logs[2].high_watermark == UNKNOWN_OFFSET

        # When batches of two partitions come, of which one is known by then
        bench.logs[0].advance(
            high_watermark=40,
            log_start_offset=0,
            last_stable_offset=40,
            aborted_count=0,
            size=0,
        )
        later = [bench.append(partition, b"value") for partition in (2, 0, 0)]
        bench.objects.failures = 1  # the first upload is tried again under another path
        bench.objects.gate.set()
        await asyncio.gather(first, *later)

        # Then every object says whose it is, in which order, and what it has
        found = {
            one.path: (one.size, await bench.objects.get(one.path, 0, one.size))
            async for one in bench.objects.list("wal/")
        }
        by_sequence: dict[int, list[WalIndex]] = {}
        for _, data in found.values():
            index = parse_index(data[-parse_index_length(data) :])
            by_sequence.setdefault(index.sequence, []).append(index)
            assert (index.writer_id, index.written_ms) == (WRITER_ID, NOW_MS)
            assert index.topics == ((bench.logs[0].partition.topic_id, "t"),)
        assert len(by_sequence[0]) == 2
        assert by_sequence[0][0] == by_sequence[0][1]
        (second,) = by_sequence[1]
        ((_, _, start, length, count, offset, _, _),) = by_sequence[0][0].runs
        assert (start, count, offset) == (0, 1, UNKNOWN_OFFSET)
        runs = [(run.partition, run.record_count, run.expected_offset) for run in second.runs]
        assert runs == [(0, 2, 40), (2, 1, UNKNOWN_OFFSET)]

        # And the metadata knows the whole object, and points at the batches only
        (entries,) = await bench.metadata.find_segments(
            [SegmentLookup(partition=bench.logs[2].partition, offset=0, max_bytes=1)]
        )
        assert (entries[0].start, entries[0].length) == (0, length)
        size, data = found[entries[0].path]
        assert size > length
        assert read_header(data).size == length


async def test_the_next_offset_of_a_known_partition_counts_what_is_buffered() -> None:
    async with running(WriterConfig(flush_bytes=1)) as bench:
        await bench.append()
        bench.objects.gate.clear()
        futures = [bench.append() for _ in range(3)]
        bench.objects.gate.set()
        await asyncio.gather(*futures)
        expected = []
        async for one in bench.objects.list("wal/"):
            data = await bench.objects.get(one.path, 0, one.size)
            index = parse_index(data[-parse_index_length(data) :])
            expected.append((index.sequence, index.runs[0].expected_offset))
        assert sorted(expected) == [(0, UNKNOWN_OFFSET), (1, 1), (2, 2), (3, 3)]


async def test_what_was_known_before_leaders_changed_is_not_expected() -> None:
    async with running() as bench:
        # Given a partition whose end is known here
        await bench.append()

        # When another broker may have led it meanwhile, then nothing is expected until a commit
        bench.logs[0].leader_changed()
        await bench.append()
        await bench.append()
        expected = []
        async for one in bench.objects.list("wal/"):
            data = await bench.objects.get(one.path, 0, one.size)
            index = parse_index(data[-parse_index_length(data) :])
            expected.append((index.sequence, index.runs[0].expected_offset))
        assert sorted(expected) == [(0, UNKNOWN_OFFSET), (1, UNKNOWN_OFFSET), (2, 2)]


async def test_each_topic_is_named_once_and_each_leader_epoch_has_its_run() -> None:
    async with running() as bench:
        bench.objects.gate.clear()
        opening = bench.append(3)
        await asyncio.sleep(0)
        other = await bench.metadata.create_topic(
            "other", partition_count=1, replication_factor=1, configs={}
        )
        bench.logs.append(type(bench.logs[0])(Partition(other.topic_id, 0)))
        futures = [bench.append(partition) for partition in (4, 1, 0, 4)]
        futures.append(bench.append(1, leader_epoch=9))
        bench.objects.gate.set()
        await asyncio.gather(opening, *futures)
        async for one in bench.objects.list("wal/"):
            data = await bench.objects.get(one.path, 0, one.size)
            index = parse_index(data[-parse_index_length(data) :])
            if index.sequence == 1:
                ids = {bench.logs[0].partition.topic_id, other.topic_id}
                assert {topic_id for topic_id, _ in index.topics} == ids
                assert len(index.topics) == 2
                runs = {
                    (index.topics[run.topic][0], run.partition, run.leader_epoch): run.record_count
                    for run in index.runs
                }
                first = bench.logs[0].partition.topic_id
                assert runs == {
                    (first, 0, 0): 1,
                    (first, 1, 0): 1,
                    (first, 1, 9): 1,
                    (other.topic_id, 0, 0): 2,
                }
                return
        raise AssertionError("no second object")
