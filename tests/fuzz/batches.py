"""Record batches for Produce: intact ones of every codec, damaged ones, and bombs."""

import struct
from functools import cache
from random import Random
from typing import Final

import crc32c

from protocol.batch import CRC_START, HEADER_BYTES, LENGTH_FIELD_END
from protocol.compression import Codec, compress
from protocol.records import Record, build_batch, encode_records
from tests.fuzz.mutations import LIES, corrupt
from tests.fuzz.values import INTEGERS, pick, some_bytes
from tests.support.wire import encode_frame, produce_request

NOW_MS: Final = 1_800_000_000_000

_POOL: Final = 400
_ONE_IN_NEW: Final = 40
_ONE_IN_BOMBS: Final = 5_000

_LENGTH: Final = struct.Struct(">i")
_CRC: Final = struct.Struct(">I")
_COUNT: Final = struct.Struct(">i")
_ATTRIBUTES: Final = struct.Struct(">h")
_FIELDS: Final = (  # where a header field is, and values for it
    *((0, "int64"), (8, "int32"), (12, "int32"), (16, "int8"), (21, "int16"), (23, "int32")),
    *((27, "int64"), (35, "int64"), (43, "int64"), (51, "int16"), (53, "int32"), (57, "int32")),
)


def some_batch(random: Random) -> bytes:
    """Return what a producer, or somebody who means no good, has for one partition."""
    chosen = random.random()
    if chosen < 1 / _ONE_IN_BOMBS:
        return pick(random, _bombs())
    if chosen < 1 / _ONE_IN_NEW:
        return _new_batch(random)
    batch = pick(random, batch_pool())
    return batch if chosen < 0.4 else _damaged(random, batch)


@cache
def batch_pool() -> tuple[bytes, ...]:
    """Return batches that are made once: to make one takes as long as to check it."""
    random = Random(0)
    return tuple(_new_batch(random) for _ in range(_POOL))


def _new_batch(random: Random) -> bytes:
    records = [_record(random, at) for at in range(1 + int(random.random() ** 4 * 60))]
    codec = Codec(int(random.random() * 5))
    producer = 7 if random.random() < 0.3 else -1
    batch = build_batch(
        records,
        attributes=codec | (0x10 if random.random() < 0.1 else 0),
        base_timestamp_ms=NOW_MS,
        producer_id=producer,
        producer_epoch=0 if producer > 0 else -1,
        base_sequence=0 if producer > 0 else -1,
    )
    if random.random() < 0.5:
        return batch
    payload = encode_records(records)
    while random.random() < 0.8:  # damage behind the compression, under a right checksum
        payload = corrupt(random, payload)
    return with_payload(batch, compress(codec, payload))


def _record(random: Random, offset_delta: int) -> Record:
    def nullable() -> bytes | None:
        return None if random.random() < 0.2 else some_bytes(random)

    value = nullable()
    if random.random() < 0.3:
        value = b"\0" + struct.pack(">i", int(random.random() * 4)) + (value or b"")
    headers = (("name", nullable()),) * int(random.random() * 3)
    return Record(
        offset_delta=offset_delta,
        timestamp_delta_ms=int(random.random() * 1000),
        key=nullable(),
        value=value,
        headers=headers,
    )


def _damaged(random: Random, batch: bytes) -> bytes:
    """Return a batch with something wrong, often under a right checksum and a right length."""
    chosen = random.random()
    if chosen < 0.3:
        data = bytearray(batch)
        at, kind = pick(random, _FIELDS)
        value = pick(random, INTEGERS[kind])
        data[at : at + len(value)] = value
    elif chosen < 0.7:
        payload = bytearray(batch[HEADER_BYTES:])
        at, lie = int(random.random() * (len(payload) + 1)), pick(random, LIES)
        payload[at : at + len(lie)] = lie
        data = bytearray(with_payload(batch, bytes(payload)))
    elif chosen < 0.8:
        data = bytearray(batch + pick(random, batch_pool()))
    else:
        data = bytearray(corrupt(random, batch))
    if chosen < 0.9 and len(data) > HEADER_BYTES:
        _set_crc(data)
    return bytes(data)


def with_payload(batch: bytes, payload: bytes) -> bytes:
    """Return a batch with the header of another one, and a right length and checksum."""
    data = bytearray(batch[:HEADER_BYTES] + payload)
    _LENGTH.pack_into(data, 8, len(data) - LENGTH_FIELD_END)
    _set_crc(data)
    return bytes(data)


def _set_crc(data: bytearray) -> None:
    _CRC.pack_into(data, 17, crc32c.crc32c(bytes(data[CRC_START:])))


def bomb(codec: Codec, payload: bytes, record_count: int) -> bytes:
    """Return an intact batch of that many records, whatever the payload really holds."""
    return with_payload(_header(codec, record_count), compress(codec, payload))


def produced(codec: int, record_count: int, payload: bytes) -> bytes:
    """Return a Produce request with one intact batch that has this payload, compressed already."""
    batch = with_payload(_header(codec, record_count), payload)
    return encode_frame(produce_request("fuzz-topic", batch), 1)


def _header(codec: int, record_count: int) -> bytes:
    batch = bytearray(build_batch([Record(offset_delta=0)]))
    _ATTRIBUTES.pack_into(batch, CRC_START, codec)
    _COUNT.pack_into(batch, 23, record_count - 1)
    _COUNT.pack_into(batch, 57, record_count)
    return bytes(batch)


@cache
def _bombs() -> tuple[bytes, ...]:
    """Return small batches that hold very much: one large record, nothing at all, many records."""
    large = encode_records([Record(offset_delta=0, value=bytes(8 * 2**20))])
    many = encode_records([Record(offset_delta=at) for at in range(20_000)])
    zeros = bytes(80 * 2**20)
    codecs = [codec for codec in Codec if codec is not Codec.NONE]
    return tuple(
        bomb(codec, payload, count)
        for codec in codecs
        for payload, count in ((large, 1), (many, 20_000), (zeros, 10_000_000))
        if not (codec is Codec.SNAPPY and len(payload) > 10 * 2**20)  # 4 MB of its own
    )
