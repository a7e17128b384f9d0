"""The record batches of a partition as the broker serves them: bytes that no client has decoded.

A client may quietly send uncompressed (librdkafka does when a broker's ApiVersions miss what it
looks for, KAFKA-18659), and every reader would still see the right records; only the batches tell.
"""

import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")  # bits 0-2 of a batch's attributes
FETCH_KEY, FETCH_VERSION = 1, 4
FETCH_BYTES = 16 * 1024 * 1024
TIMEOUT_S = 30.0
BATCH_HEADER: Final = struct.Struct(
    ">qiibIhiqqqhii"
)  # v2, up to and with the record count (KIP-98)
LENGTH_FROM: Final = 12  # a batch's length does not count its base offset and the length itself


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBatch:
    """What the header of one v2 batch says."""

    base_offset: int
    last_offset: int
    record_count: int
    codec: str


def stored_batches(leader: tuple[str, int], topic: str, partition: int) -> list[StoredBatch]:
    """Return the headers of all batches of a partition, from offset 0 to its high watermark."""
    batches: list[StoredBatch] = []
    with socket.create_connection(leader, timeout=TIMEOUT_S) as connection:
        next_offset, high_watermark = 0, 1
        while next_offset < high_watermark:
            connection.sendall(_fetch_request(topic, partition, next_offset))
            high_watermark, records = _parse_response(_receive_frame(connection))
            fetched = list(_headers(records))
            assert fetched, f"nothing at offset {next_offset}, below {high_watermark}"
            batches += fetched
            next_offset = fetched[-1].last_offset + 1
    return batches


def _fetch_request(topic: str, partition: int, offset: int) -> bytes:
    name = topic.encode()
    header = struct.pack(">hhih", FETCH_KEY, FETCH_VERSION, 0, -1)  # no client id
    limits = struct.pack(">iiiib", -1, 500, 1, FETCH_BYTES, 0)
    topics = struct.pack(f">ih{len(name)}s", 1, len(name), name)
    partitions = struct.pack(">iiqi", 1, partition, offset, FETCH_BYTES)
    frame = header + limits + topics + partitions
    return struct.pack(">i", len(frame)) + frame


def _receive_frame(connection: socket.socket) -> bytes:
    (size,) = struct.unpack(">i", _receive(connection, 4))
    return _receive(connection, size)


def _receive(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        chunk = connection.recv(size - len(received))
        assert chunk, f"the broker closed the connection after {len(received)} of {size} bytes"
        received += chunk
    return bytes(received)


def _parse_response(frame: bytes) -> tuple[int, bytes]:
    """Return high watermark and records of the one partition in a Fetch v4 response."""
    position = struct.calcsize(">iii")  # correlation id, throttle time, one topic
    (name_length,) = struct.unpack_from(">h", frame, position)
    position += 2 + name_length
    layout = struct.Struct(">iihqqi")
    _, _, error, high_watermark, _, aborted = layout.unpack_from(frame, position)
    assert error == 0, f"Fetch answered error code {error}"
    position += layout.size + 16 * max(aborted, 0)
    (records_length,) = struct.unpack_from(">i", frame, position)
    position += 4
    return high_watermark, frame[position : position + records_length]


def _headers(records: bytes) -> Iterator[StoredBatch]:
    """Yield the batches that are there whole; the last one may be cut off."""
    position = 0
    while position + BATCH_HEADER.size <= len(records):
        fields = BATCH_HEADER.unpack_from(records, position)
        base_offset, length, _, magic, _, attributes, last_offset_delta = fields[:7]
        assert magic == 2, f"batch at offset {base_offset} has magic {magic}"
        position += LENGTH_FROM + length
        if position <= len(records):
            yield StoredBatch(
                base_offset=base_offset,
                last_offset=base_offset + last_offset_delta,
                record_count=fields[-1],
                codec=CODECS[attributes & 7],
            )
