"""By what a batch is known that has other bytes since it was built; pure.

Its checksum has changed if it was compressed otherwise, or if compaction has removed records of it.
Those that are left are byte for byte what they were.
"""

import crc32c

from protocol.batch import HEADER_BYTES, read_header
from protocol.decompression import decompress_stored
from protocol.errors import ProtocolError
from protocol.record_spans import record_spans
from storage.objects.port import Buffer


def record_checksums(batch: Buffer) -> frozenset[int]:
    """Return a checksum of each record of a batch; none if its records cannot be read.

    Such a batch is never changed.
    """
    view = memoryview(batch)
    header = read_header(view)
    try:
        payload = decompress_stored(header.codec, view[HEADER_BYTES:])
        found = record_spans(payload, header.record_count, header.last_offset_delta)
        spans = [(start, end) for start, end, *_ in found]
    except ProtocolError:
        return frozenset()
    return frozenset(crc32c.crc32c(payload[start:end]) for start, end in spans)
