"""The control batch that ends a transaction in a partition (KIP-98).

It is transactional, has the control bit, and holds one record, which takes an offset of its own:

    key    version i16 (0) | type i16 (0 abort, 1 commit)
    value  version i16 (0) | coordinator epoch i32
"""

import struct
from dataclasses import dataclass
from typing import Final

from protocol.batch import CONTROL_BIT, HEADER_BYTES, TRANSACTIONAL_BIT, read_header
from protocol.errors import InvalidRecords
from protocol.records import Buffer, Record, build_batch, decode_records

COORDINATOR_EPOCH: Final = 0
"""There is one coordinator, the database, and it never loses its place to another one."""

_VERSION: Final = 0
_ABORT: Final = 0
_COMMIT: Final = 1
_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")


@dataclass(frozen=True, slots=True, kw_only=True)
class EndMarker:
    """What a control batch says: a producer's transaction has ended here.

    Attributes:
        committed: False: what it wrote is not to be read.
        timestamp_ms: when it ended (Unix time).
    """

    producer_id: int
    producer_epoch: int
    committed: bool
    timestamp_ms: int
    coordinator_epoch: int = COORDINATOR_EPOCH


def build_end_marker(marker: EndMarker, *, leader_epoch: int) -> bytes:
    """Return the whole batch; its base offset is 0 until it has a place in the log.

    Args:
        marker: what the batch says.
        leader_epoch: that it is appended in (KIP-101).
    """
    record = Record(
        offset_delta=0,
        key=_KEY.pack(_VERSION, _COMMIT if marker.committed else _ABORT),
        value=_VALUE.pack(_VERSION, marker.coordinator_epoch),
    )
    return build_batch(
        [record],
        attributes=TRANSACTIONAL_BIT | CONTROL_BIT,
        base_timestamp_ms=marker.timestamp_ms,
        leader_epoch=leader_epoch,
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
    )


def read_end_marker(batch: Buffer) -> EndMarker:
    """Return what a whole control batch says; its checksum is not looked at.

    Raises:
        CorruptBatch: too short for a batch.
        InvalidRecords: not the end of a transaction.
    """
    header = read_header(batch)
    if not (header.is_control and header.is_transactional) or header.codec:
        raise InvalidRecords("not the control batch of a transaction")
    records = list(decode_records(memoryview(batch)[HEADER_BYTES:], header.record_count))
    if len(records) != 1:
        raise InvalidRecords(f"a control batch of {len(records)} records")
    key, value = records[0].key or b"", records[0].value or b""
    if len(key) < _KEY.size or len(value) < _VALUE.size:
        raise InvalidRecords(f"a control record of {len(key)} and {len(value)} bytes")
    kind = _KEY.unpack_from(key)[1]
    if kind not in {_ABORT, _COMMIT}:
        raise InvalidRecords(f"a control record of type {kind}")
    return EndMarker(
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        committed=kind == _COMMIT,
        timestamp_ms=header.base_timestamp_ms,
        coordinator_epoch=_VALUE.unpack_from(value)[1],
    )
