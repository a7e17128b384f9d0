"""What readers shall get of a log that is built in the background."""

from dataclasses import dataclass, replace
from typing import Final

from protocol.batch import CODEC_MASK, HEADER_BYTES, read_header
from protocol.decompression import decompress
from protocol.records import Record, decode_records
from storage.config import MiB
from storage.metadata.transactions import Producer
from storage.objects.port import Buffer
from tests.support.policies import read_policy

HOUR_MS: Final = 3_600_000
START_MS: Final = 1_700_000_000_000
POLICY: Final = replace(
    read_policy("orders", configs={"retention.ms": "-1"}),
    segment_bytes=64 * MiB,
    segment_ms=HOUR_MS,
    delete_retention_ms=HOUR_MS,
)


@dataclass(frozen=True, slots=True)
class Written:
    """A batch as the model has it, with its base offset."""

    first_offset: int
    last_offset: int
    data: bytes


@dataclass(slots=True)
class Transactional:
    """A producer: the sequence of its next record, and where its open transaction began, or -1."""

    producer: Producer
    sequence: int = 0
    first_offset: int = -1


def said(batch: Buffer) -> tuple[object, ...]:
    """Return what a batch says, whatever it is compressed with."""
    header = read_header(batch)
    payload = decompress(header.codec, memoryview(batch)[HEADER_BYTES:])
    rest = header._replace(crc=0, batch_length=0, attributes=header.attributes & ~CODEC_MASK)
    return *rest, tuple(decode_records(payload, header.record_count))


def two_records(value: bytes) -> list[Record]:
    return [Record(offset_delta=delta, key=b"k", value=value) for delta in range(2)]
