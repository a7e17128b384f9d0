"""Every codec: what others write is read, and nothing decompresses beyond its limit."""

import gzip
import struct
import tracemalloc
from contextlib import suppress
from pathlib import Path

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from protocol.compression import Codec, compress
from protocol.decompression import (
    MAX_DECOMPRESSED_BYTES,
    MAX_FRAMES,
    MiB,
    decompress,
    decompress_stored,
    default_limit,
)
from protocol.errors import CorruptBatch, DecompressedTooLarge, UnsupportedCompression

CAPTURED = Path(__file__).parent / "captured"
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
PACKED = [codec for codec in Codec if codec != Codec.NONE]
TEXT = b"a record batch, " * 9000


def zstd_stream(data: bytes, *, checksum: bool = False, level: int = 3) -> bytes:
    """Return a frame without content size, as streaming writers make it."""
    writer = zstandard.ZstdCompressor(level=level, write_checksum=checksum).compressobj()
    return writer.compress(data) + writer.flush()


def xerial(*blocks: bytes) -> bytes:
    framed = b"".join(struct.pack(">i", len(block)) + block for block in blocks)
    return b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + framed


def raw_snappy(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


WRITTEN_BY_OTHERS = {
    "gzip-1": (Codec.GZIP, gzip.compress(TEXT, 1)),
    "gzip-two-members": (Codec.GZIP, gzip.compress(TEXT[:5000]) + gzip.compress(TEXT[5000:])),
    "gzip-empty-member": (Codec.GZIP, gzip.compress(b"") + gzip.compress(TEXT)),
    "snappy-raw": (Codec.SNAPPY, raw_snappy(TEXT)),
    "snappy-xerial": (Codec.SNAPPY, xerial(raw_snappy(TEXT[:99]), raw_snappy(TEXT[99:]))),
    "snappy-xerial-twice": (
        Codec.SNAPPY,
        xerial(raw_snappy(TEXT[:99])) + xerial(raw_snappy(TEXT[99:])),
    ),
    "lz4-linked": (Codec.LZ4, lz4.frame.compress(TEXT, block_linked=True, store_size=True)),
    "lz4-checksums": (
        Codec.LZ4,
        lz4.frame.compress(TEXT, content_checksum=True, block_checksum=True, store_size=False),
    ),
    "lz4-two-frames": (Codec.LZ4, lz4.frame.compress(TEXT[:5]) + lz4.frame.compress(TEXT[5:])),
    "zstd-sized": (Codec.ZSTD, zstandard.ZstdCompressor(level=19).compress(TEXT)),
    "zstd-streamed": (Codec.ZSTD, zstd_stream(TEXT)),
    "zstd-level-22": (Codec.ZSTD, zstd_stream(TEXT, level=22)),
    "zstd-checksum": (Codec.ZSTD, zstd_stream(TEXT, checksum=True)),
    "zstd-two-frames": (
        Codec.ZSTD,
        zstd_stream(TEXT[:5], checksum=True) + zstandard.ZstdCompressor().compress(TEXT[5:]),
    ),
}


@unhurried
@given(data=st.binary(max_size=5000) | st.binary(max_size=40).map(lambda each: each * 3000))
def test_what_was_compressed_comes_back(data: bytes) -> None:
    for codec in Codec:
        packed = compress(codec, memoryview(data))
        assert decompress(codec, memoryview(packed), max_bytes=len(data)) == data
        if data and codec != Codec.NONE:
            with pytest.raises(DecompressedTooLarge):
                decompress(codec, packed, max_bytes=len(data) - 1)


@pytest.mark.parametrize(("codec", "data"), WRITTEN_BY_OTHERS.values(), ids=WRITTEN_BY_OTHERS)
def test_what_others_write_is_read(codec: Codec, data: bytes) -> None:
    assert decompress(codec, data) == TEXT
    assert decompress(codec, bytearray(data), max_bytes=len(TEXT)) == TEXT


@pytest.mark.parametrize("client", ["java", "librdkafka", "aiokafka"])
@pytest.mark.parametrize("codec", PACKED, ids=lambda codec: codec.name)
def test_what_clients_sent_is_read_and_made_again(client: str, codec: Codec) -> None:
    batch = (CAPTURED / f"{client}-{codec.name.lower()}.batches").read_bytes()
    assert batch[22] == codec

    records = decompress(codec, batch[61:])

    assert records.count(b"value-") == 92 * 50  # of 100 records, 8 have no value
    assert decompress(codec, compress(codec, records)) == records


@pytest.mark.parametrize(("codec", "data"), WRITTEN_BY_OTHERS.values(), ids=WRITTEN_BY_OTHERS)
@unhurried
@given(choices=st.data())
def test_damage_is_corrupt_or_harmless_but_never_too_large(
    codec: Codec, data: bytes, choices: st.DataObject
) -> None:
    damaged = bytearray(data)
    for _ in range(choices.draw(st.integers(1, 3))):
        at = choices.draw(
            st.integers(0, min(len(damaged) - 1, 40)) | st.integers(0, len(damaged) - 1)
        )
        damaged[at] = choices.draw(st.integers(0, 255))
    with suppress(CorruptBatch, DecompressedTooLarge):
        assert len(decompress(codec, damaged, max_bytes=2 * len(TEXT))) <= 2 * len(TEXT)


@pytest.mark.parametrize("codec", PACKED, ids=lambda codec: codec.name)
@unhurried
@given(data=st.binary(max_size=400))
def test_garbage_is_corrupt_or_harmless(codec: Codec, data: bytes) -> None:
    start = compress(codec, b"x")[:8]
    for garbage in (data, start + data):
        with suppress(CorruptBatch, DecompressedTooLarge):
            assert len(decompress(codec, garbage, max_bytes=1000)) <= 1000


@pytest.mark.parametrize("codec", PACKED, ids=lambda codec: codec.name)
def test_input_that_ends_early_or_late_is_corrupt(codec: Codec) -> None:
    packed = compress(codec, TEXT[:20_000])
    for end in range(len(packed)):
        if codec == Codec.SNAPPY and end == 16:  # a xerial stream of no blocks
            continue
        with pytest.raises(CorruptBatch):
            decompress(codec, packed[:end])
    for more in (b"\0", b"junk", packed[:9]):
        with pytest.raises(CorruptBatch):
            decompress(codec, packed + more)


BOMBS = {
    "gzip": (Codec.GZIP, gzip.compress(bytes(200 * MiB), 9)),
    "gzip-members": (Codec.GZIP, gzip.compress(bytes(MiB)) * 200),
    "snappy": (Codec.SNAPPY, raw_snappy(bytes(70 * MiB))),
    "snappy-lie": (Codec.SNAPPY, b"\xff\xff\xff\xff\x0f\0\0"),
    "snappy-xerial": (Codec.SNAPPY, xerial(*[raw_snappy(bytes(MiB))] * 80)),
    "lz4": (Codec.LZ4, lz4.frame.compress(bytes(200 * MiB))),
    "lz4-frames": (Codec.LZ4, lz4.frame.compress(bytes(MiB)) * 200),
    "zstd": (Codec.ZSTD, zstandard.ZstdCompressor().compress(bytes(200 * MiB))),
    "zstd-streamed": (Codec.ZSTD, zstd_stream(bytes(200 * MiB))),
    "zstd-frames": (Codec.ZSTD, zstd_stream(bytes(MiB)) * 200),
}


@pytest.mark.parametrize(("codec", "data"), BOMBS.values(), ids=BOMBS)
def test_a_bomb_is_refused_within_its_limit(codec: Codec, data: bytes) -> None:
    tracemalloc.start()
    try:
        for limit in (1000, 10 * MiB, MAX_DECOMPRESSED_BYTES):
            tracemalloc.reset_peak()
            with pytest.raises(DecompressedTooLarge):
                decompress(codec, data, max_bytes=limit)
            # one piece above the limit, and the codec's own copy of its input
            assert tracemalloc.get_traced_memory()[1] <= limit + 2 * MiB + len(data)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD], ids=lambda each: each.name)
def test_frames_of_nothing_are_limited(codec: Codec) -> None:
    assert decompress(codec, compress(codec, b"") * MAX_FRAMES) == b""
    with pytest.raises(CorruptBatch, match="more than 1024"):
        decompress(codec, compress(codec, b"") * (MAX_FRAMES + 1))


def test_the_default_limit_grows_with_the_input_up_to_64_mib() -> None:
    assert default_limit(0) == 16 * MiB
    assert default_limit(1000) == 16 * MiB + 64_000
    assert default_limit(10 * MiB) == 64 * MiB
    with pytest.raises(DecompressedTooLarge):
        decompress(Codec.ZSTD, compress(Codec.ZSTD, bytes(18 * MiB)))


def test_what_is_stored_may_be_of_any_ratio_up_to_64_mib() -> None:
    alike = bytes(MAX_DECOMPRESSED_BYTES)
    assert decompress_stored(Codec.ZSTD, compress(Codec.ZSTD, alike)) == alike
    with pytest.raises(DecompressedTooLarge):
        decompress_stored(Codec.ZSTD, compress(Codec.ZSTD, alike + b"0"))


@pytest.mark.parametrize("codec", [-1, 5, 6, 7])
def test_other_codecs_are_unsupported(codec: int) -> None:
    with pytest.raises(UnsupportedCompression):
        decompress(codec, b"x")
    with pytest.raises(UnsupportedCompression):
        compress(codec, b"x")


def test_an_lz4_block_stands_alone_as_java_demands() -> None:
    flags = compress(Codec.LZ4, TEXT)[4]
    assert flags & 0x20, "block independence"


def test_a_stream_of_no_bytes_is_corrupt() -> None:
    for codec in PACKED:
        with pytest.raises(CorruptBatch):
            decompress(codec, b"")
    assert decompress(Codec.NONE, b"") == b""
