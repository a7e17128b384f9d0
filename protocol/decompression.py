"""Decompresses payloads of record batches within a limit that holds before allocation.

`message.max.bytes` bounds what came over the wire only: one megabyte of zstd may hold 34 gigabytes.
So no codec is asked for its whole output at once. Streams are read piece by piece until the limit;
of a snappy block, which comes whole, the announced size is looked at first. Input that ends early,
goes on after its end or is damaged is CorruptBatch; nothing here loops without consuming or
producing bytes, and concatenated frames are limited, since each one costs setup.

Writers differ: Java and aiokafka put snappy into xerial's framing, librdkafka does not; streaming
writers leave the content size out of lz4 and zstd frames.
"""

import zlib
from collections.abc import Callable
from typing import Final

import cramjam
import lz4.frame
import zstandard

from protocol.compression import XERIAL, XERIAL_LENGTH, Buffer, Codec
from protocol.errors import CorruptBatch, DecompressedTooLarge, UnsupportedCompression

MiB: Final = 1024 * 1024
MAX_DECOMPRESSED_BYTES: Final = 64 * MiB
MAX_FRAMES: Final = 1024

_CHUNK_BYTES: Final = 64 * 1024  # of input; what follows a frame in it is copied once per frame
_PIECE_BYTES: Final = MiB  # of output
_GZIP: Final = 16 + zlib.MAX_WBITS
_ZSTD_WINDOW_BYTES: Final = 128 * MiB  # what level 22 announces; memory is touched only as used
_ZSTD_RLE: Final = 1


def default_limit(compressed_bytes: int) -> int:
    """Return how many bytes a producer's payload may decompress to.

    Producers fill a batch by the size that they expect it to have when it is compressed: where
    records are much alike, there are megabytes in their 16 KiB.
    """
    return min(MAX_DECOMPRESSED_BYTES, 64 * compressed_bytes + 16 * MiB)


def decompress(codec: int, data: Buffer, *, max_bytes: int | None = None) -> bytes:
    """Return the decompressed payload of a batch.

    Args:
        codec: of the batch's attributes.
        data: what follows the batch header, as sent.
        max_bytes: of the result; `default_limit` if None. Not looked at without compression.

    Raises:
        UnsupportedCompression: no such codec.
        DecompressedTooLarge: the result would have more than `max_bytes`.
        CorruptBatch: the data are not what the codec writes.
    """
    if codec == Codec.NONE:
        return bytes(data)
    undo = _DECOMPRESSORS.get(codec)
    if undo is None:
        raise UnsupportedCompression(f"compression codec {codec} does not exist")
    output = _Output(default_limit(len(data)) if max_bytes is None else max_bytes)
    try:
        undo(memoryview(data), output)
        return output.joined()
    except (zlib.error, zstandard.ZstdError, cramjam.DecompressionError) as error:
        raise CorruptBatch(f"{Codec(codec).name.lower()}: {error}") from error
    finally:
        output.forget()  # who keeps an error keeps this frame with it, but no megabytes


def decompress_stored(codec: int, data: Buffer) -> bytes:
    """Return the decompressed payload of a batch of the log, however small it is there.

    Not all batches were looked into when they came, and another codec has made some smaller.

    Raises:
        UnsupportedCompression, DecompressedTooLarge, CorruptBatch: see `decompress`.
    """
    return decompress(codec, data, max_bytes=MAX_DECOMPRESSED_BYTES)


class _Output:
    """What has been decompressed so far; it never holds much more than the limit."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._size = 0
        self._pieces: list[Buffer] = []

    def announce(self, size: int) -> None:
        """Refuse `size` more bytes if they are too many."""
        if self._size + size > self._max_bytes:
            raise DecompressedTooLarge(f"more than {self._max_bytes} bytes when decompressed")

    def append(self, piece: Buffer) -> None:
        self.announce(len(piece))
        self._size += len(piece)
        self._pieces.append(piece)

    def room(self) -> int:
        """Return how much the next piece may have: one byte more than allowed, to notice it."""
        return min(_PIECE_BYTES, self._max_bytes - self._size + 1)

    def joined(self) -> bytes:
        return b"".join(self._pieces)

    def forget(self) -> None:
        self._pieces.clear()


def _gunzip(data: memoryview, output: _Output) -> None:
    start = 0
    for _ in range(MAX_FRAMES):
        member = zlib.decompressobj(_GZIP)
        pending: Buffer = b""
        while not member.eof:
            if not pending:
                pending = data[start : start + _CHUNK_BYTES]
                start += len(pending)
            piece = member.decompress(pending, output.room())
            if not piece and not pending:
                raise CorruptBatch("gzip: ends early")
            output.append(piece)
            pending = member.unconsumed_tail
        start -= len(member.unused_data)
        if start == len(data):
            return
    raise CorruptBatch(f"gzip: more than {MAX_FRAMES} members")


def _unlz4(data: memoryview, output: _Output) -> None:
    start = 0
    for _ in range(MAX_FRAMES):
        frame = lz4.frame.LZ4FrameDecompressor()
        while not frame.eof:
            pending = data[start : start + _CHUNK_BYTES] if frame.needs_input else data[:0]
            start += len(pending)
            try:
                piece = frame.decompress(pending, max_length=output.room())
            except RuntimeError as error:  # the only way it tells of damage
                raise CorruptBatch(f"lz4: {error}") from error
            if not piece and not pending:
                raise CorruptBatch("lz4: ends early")
            output.append(piece)
        start -= len(frame.unused_data or b"")
        if start == len(data):
            return
    raise CorruptBatch(f"lz4: more than {MAX_FRAMES} frames")


def _unzstd(data: memoryview, output: _Output) -> None:
    start = 0
    for _ in range(MAX_FRAMES):
        end = _zstd_frame_end(data, start)
        # One decompressor per frame and call: it is not safe to share between threads.
        decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES)
        with decompressor.stream_reader(data[start:end]) as reader:
            while piece := reader.read(output.room()):
                output.append(piece)
        start = end
        if start == len(data):
            return
    raise CorruptBatch(f"zstd: more than {MAX_FRAMES} frames")


def _zstd_frame_end(data: memoryview, start: int) -> int:
    """Return where the frame ends, by its block headers: the reader says nothing of a missing end.

    A block is 3 bytes, little-endian (bit 0: last, bits 1-2: type, then its size), and its content,
    which is one byte for a run of it (RFC 8878, 3.1.1.2).
    """
    parameters = zstandard.get_frame_parameters(data[start:])
    end = start + zstandard.frame_header_size(data[start:])
    last = 0
    while not last:
        if end + 3 > len(data):
            raise CorruptBatch("zstd: ends early")
        block = int.from_bytes(data[end : end + 3], "little")
        last = block & 1
        end += 3 + (1 if block >> 1 & 3 == _ZSTD_RLE else block >> 3)
    end += 4 if parameters.has_checksum else 0
    if end > len(data):
        raise CorruptBatch("zstd: ends early")
    return end


def _unsnappy(data: memoryview, output: _Output) -> None:
    if data[:8] != XERIAL[:8]:
        _unsnappy_block(data, output)
        return
    start = 0
    while start < len(data):
        # A writer that appends to a stream repeats the header.
        if data[start : start + 8] == XERIAL[:8]:
            start += len(XERIAL)
            continue
        if start + XERIAL_LENGTH.size > len(data):
            raise CorruptBatch("snappy: ends early")
        (size,) = XERIAL_LENGTH.unpack_from(data, start)
        start += XERIAL_LENGTH.size
        if not 0 <= size <= len(data) - start:
            raise CorruptBatch(f"snappy: block of {size} bytes")
        _unsnappy_block(data[start : start + size], output)
        start += size
    if start > len(data):
        raise CorruptBatch("snappy: ends early")


def _unsnappy_block(block: memoryview, output: _Output) -> None:
    size = cramjam.snappy.decompress_raw_len(block)
    output.announce(size)
    piece = bytearray(size)
    if cramjam.snappy.decompress_raw_into(block, piece) != size:
        raise CorruptBatch(f"snappy: not the {size} bytes announced")
    output.append(piece)


_DECOMPRESSORS: Final[dict[int, Callable[[memoryview, _Output], None]]] = {
    Codec.GZIP: _gunzip,
    Codec.SNAPPY: _unsnappy,
    Codec.LZ4: _unlz4,
    Codec.ZSTD: _unzstd,
}
