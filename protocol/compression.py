"""Compresses payloads of record batches as every client's decompressor reads them.

Snappy is in xerial's framing, as Java writes it; Java reads only independent lz4 blocks.
"""

import gzip
import struct
import threading
from enum import IntEnum
from typing import Final

import cramjam
import lz4.frame
import zstandard

from protocol.errors import UnsupportedCompression

Buffer = bytes | bytearray | memoryview

XERIAL: Final = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
"""How a snappy stream begins: the magic, its version, and the lowest compatible one."""
XERIAL_LENGTH: Final = struct.Struct(">i")
"""What goes before each block of it."""

_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_ZSTD_DEFAULT: Final = 3
_GZIP_BEST: Final = 9
_LZ4_DEFAULT: Final = 9  # Kafka's name for the fast compressor; all others are slow ones (KIP-390)
_LZ4_FAST: Final = 0
_LZ4_LEAST_SLOW: Final = 3  # below it, this library has the fast one, too


class Codec(IntEnum):
    """Bits 0-2 of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: int, data: Buffer, *, level: int | None = None) -> bytes:
    """Return `data` as every client's decompressor reads it.

    Args:
        codec: to compress with.
        data: the payload of a batch.
        level: as in a topic's configs (KIP-390); None is the codec's default.

    Raises:
        UnsupportedCompression: no such codec.
    """
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            return gzip.compress(data, _GZIP_BEST if level is None else level, mtime=0)
        case Codec.SNAPPY:
            return _snappy(memoryview(data))
        case Codec.LZ4:
            return _lz4(data, level)
        case Codec.ZSTD:
            return _zstd.compressor(_ZSTD_DEFAULT if level is None else level).compress(data)
        case _:
            raise UnsupportedCompression(f"compression codec {codec} does not exist")


def _lz4(data: Buffer, level: int | None) -> bytes:
    if level == _LZ4_DEFAULT:
        level = None
    own_level = _LZ4_FAST if level is None else max(level, _LZ4_LEAST_SLOW)
    return bytes(
        lz4.frame.compress(data, compression_level=own_level, block_linked=False, store_size=False)
    )


class _ZstdCompressors(threading.local):
    """The last one that each thread needed: to make one takes as long as to compress 16 KiB."""

    def __init__(self) -> None:
        self._level = _ZSTD_DEFAULT
        self._compressor = zstandard.ZstdCompressor(level=self._level)

    def compressor(self, level: int) -> zstandard.ZstdCompressor:
        """Return one for this thread; it is not safe to share."""
        if level != self._level:
            self._compressor = zstandard.ZstdCompressor(level=level)
            self._level = level
        return self._compressor


_zstd: Final = _ZstdCompressors()


def _snappy(data: memoryview) -> bytes:
    parts = [XERIAL]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (XERIAL_LENGTH.pack(len(block)), block)
    return b"".join(parts)
