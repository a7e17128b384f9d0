"""A batch with another codec says the same, in bytes that every client reads."""

import struct

import crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.batch import (
    CONTROL_BIT,
    CRC_START,
    HEADER_BYTES,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    batch_extents,
    read_header,
)
from protocol.batch_scan import FoundTimestamp, find_first_at_or_after
from protocol.compression import Codec, compress
from protocol.control_batch import EndMarker, build_end_marker
from protocol.decompression import decompress
from protocol.errors import CorruptBatch, DecompressedTooLarge, UnsupportedCompression
from protocol.records import Record, build_batch, decode_records
from storage.config import MiB
from storage.upkeep.compaction_batches import add_keys
from storage.upkeep.compaction_keys import LatestOffsets
from storage.upkeep.recompression import MAX_PAYLOAD_BYTES, recompress

LEVELS = {
    Codec.GZIP: (None, -1, 1, 9),
    Codec.LZ4: (None, 1, 9, 17),
    Codec.ZSTD: (None, -7, 1, 19),
}
DELETE_HORIZON_BIT = 0x40


def with_payload(batch: bytes, payload: bytes) -> memoryview:
    """Return the batch with other bytes behind its header, under a checksum that matches."""
    changed = bytearray(batch[:HEADER_BYTES] + payload)
    struct.pack_into(">i", changed, 8, len(changed) - 12)
    struct.pack_into(">I", changed, 17, crc32c.crc32c(memoryview(changed)[CRC_START:]))
    return memoryview(changed)


records = st.lists(
    st.tuples(st.none() | st.binary(max_size=20), st.none() | st.binary(max_size=300)),
    min_size=1,
    max_size=20,
)


@given(data=st.data(), pairs=records, old=st.sampled_from(Codec), new=st.sampled_from(Codec))
def test_a_recompressed_batch_says_the_same(
    data: st.DataObject, pairs: list[tuple[bytes | None, bytes | None]], old: Codec, new: Codec
) -> None:
    # Given any batch: with gaps, of a transaction, with the broker's time, with a delete horizon
    bits = data.draw(
        st.sets(
            st.sampled_from((TIMESTAMP_TYPE_BIT, TRANSACTIONAL_BIT, DELETE_HORIZON_BIT)),
        )
    )
    batch = build_batch(
        [
            Record(offset_delta=2 * at, timestamp_delta_ms=at, key=key, value=value)
            for at, (key, value) in enumerate(pairs)
        ],
        attributes=old | sum(bits),
        base_offset=data.draw(st.integers(0, 2**62)),
        last_offset_delta=2 * len(pairs) + 5,
        base_timestamp_ms=data.draw(st.integers(0, 2**41)),
        leader_epoch=data.draw(st.integers(-1, 2**31 - 1)),
        producer_id=data.draw(st.integers(-1, 2**62)),
        producer_epoch=data.draw(st.integers(-1, 2**15 - 1)),
        base_sequence=data.draw(st.integers(-1, 2**31 - 1)),
    )

    # When it is compressed otherwise
    level = data.draw(st.sampled_from(LEVELS.get(new, (None,))))
    result = memoryview(recompress(memoryview(batch), new, level))

    # Then it is whole and intact, has the codec, and all else is the same
    assert [size for _, size, _ in batch_extents(result)] == [len(result)]
    before, after = read_header(batch), read_header(result)
    assert after.codec == new
    assert after == before._replace(
        attributes=before.attributes & ~0x07 | new,
        batch_length=after.batch_length,
        crc=after.crc,
    )
    payload = decompress(new, result[HEADER_BYTES:])
    assert payload == decompress(old, batch[HEADER_BYTES:])
    assert len(list(decode_records(payload, len(pairs), from_producer=False))) == len(pairs)


def test_what_has_nothing_to_compress_stays_the_same_object() -> None:
    marker = EndMarker(producer_id=1, producer_epoch=0, committed=True, timestamp_ms=5)
    already = build_batch([Record(offset_delta=0, value=b"x")], attributes=Codec.ZSTD)
    empty = build_batch([], last_offset_delta=7, attributes=TRANSACTIONAL_BIT)
    for batch in (build_end_marker(marker, leader_epoch=0), empty, already):
        view = memoryview(batch)
        assert recompress(view, Codec.ZSTD, 3) is view


def test_a_control_batch_of_any_kind_is_not_compressed() -> None:
    batch = memoryview(build_batch([Record(offset_delta=0, key=b"?")], attributes=CONTROL_BIT))
    assert recompress(batch, Codec.LZ4, None) is batch


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_damaged_payload_under_a_right_checksum_is_refused(codec: Codec) -> None:
    batch = build_batch([Record(offset_delta=0, value=bytes(500))], attributes=codec)
    damaged = with_payload(batch, batch[HEADER_BYTES:-4])
    with pytest.raises(CorruptBatch):
        recompress(damaged, Codec.ZSTD if codec is Codec.LZ4 else Codec.LZ4, None)


def test_a_codec_that_does_not_exist_is_refused() -> None:
    batch = bytearray(build_batch([Record(offset_delta=0)]))
    batch[22] |= 0x07
    with pytest.raises(UnsupportedCompression):
        recompress(with_payload(bytes(batch), b""), Codec.LZ4, None)


def test_keys_and_times_are_found_in_what_another_codec_has_made_small() -> None:
    # Given records much alike, as Snappy packs them: to a twentieth
    records = [
        Record(offset_delta=at, timestamp_delta_ms=at, key=b"%d" % at, value=bytes(10_000))
        for at in range(1500)
    ]
    batch = memoryview(build_batch(records, attributes=Codec.SNAPPY))

    # When they are packed to a thousandth
    small = memoryview(recompress(batch, Codec.ZSTD, None))
    assert 500 * len(small) < 15_000_000

    # Then they are read as before
    latest = LatestOffsets(max_bytes=MiB, max_keys=10_000, start_offset=0)
    assert find_first_at_or_after([small], 1000) == FoundTimestamp(1000, 1000)
    assert add_keys(small, read_header(small), latest, 0)
    assert latest.keys == 1500


def test_a_payload_that_grows_beyond_memory_is_refused() -> None:
    batch = build_batch([Record(offset_delta=0)])
    header = bytearray(batch)
    header[22] |= Codec.ZSTD
    packed = compress(Codec.ZSTD, bytes(MAX_PAYLOAD_BYTES + 1))
    with pytest.raises(DecompressedTooLarge):
        recompress(with_payload(bytes(header), packed), Codec.LZ4, None)


@pytest.mark.parametrize("level", [1, 9, 17])
def test_lz4_frames_of_all_levels_have_what_java_reads(level: int) -> None:
    # Java's reader takes independent blocks, and no dictionary (KIP-57 keeps the frame's format)
    flags = compress(Codec.LZ4, bytes(1000), level=level)[4]
    assert flags >> 6 == 1
    assert flags & 0b0010_0000
    assert not flags & 0b0000_1001
    assert flags == compress(Codec.LZ4, b"x")[4]
