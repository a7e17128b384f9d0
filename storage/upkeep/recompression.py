"""A stored batch with another codec (`compression.type`): the same records in other bytes.

The payload is undone and done again as a whole, so no record is looked at. Attributes, length and
checksum change; offsets, timestamps, producer and leader epoch stay. Markers are never compressed,
and a batch without records has nothing to compress (KIP-98).
"""

import struct
from typing import Final

import crc32c

from protocol.batch import (
    CODEC_MASK,
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LENGTH_FIELD_END,
    read_header,
)
from protocol.compression import Codec, compress
from protocol.decompression import decompress
from storage.config import MiB
from storage.objects.port import Buffer

MAX_PAYLOAD_BYTES: Final = 16 * MiB
"""A batch whose payload decompresses to more is not taken apart: it would take too much memory."""

_CRC: Final = struct.Struct(">I")
_CRC_FIELD: Final = 17


def recompress(batch: memoryview, codec: Codec, level: int | None) -> Buffer:
    """Return a batch with its payload compressed by `codec`; the same object if it is so already.

    Args:
        batch: whole and intact, with its base offset.
        codec: what its payload shall be compressed with.
        level: of that codec, as in the topic's configs; None is its default.

    Raises:
        CorruptBatch, DecompressedTooLarge, UnsupportedCompression: the payload cannot be undone.
    """
    header = read_header(batch)
    if header.codec == codec or header.is_control or not header.record_count:
        return batch
    plain = decompress(header.codec, batch[HEADER_BYTES:], max_bytes=MAX_PAYLOAD_BYTES)
    payload = compress(codec, plain, level=level)
    changed = header._replace(
        attributes=header.attributes & ~CODEC_MASK | codec,
        batch_length=HEADER_BYTES - LENGTH_FIELD_END + len(payload),
    )
    result = bytearray(HEADER_BYTES + len(payload))
    HEADER.pack_into(result, 0, *changed)
    result[HEADER_BYTES:] = payload
    _CRC.pack_into(result, _CRC_FIELD, crc32c.crc32c(memoryview(result)[CRC_START:]))
    return result
