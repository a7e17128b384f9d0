"""Which schemas the keys and values of a batch name; asked off the event loop.

Serializers of schema registries begin what they write with a byte 0 and the schema's id as a
big-endian int32. What follows is the serialized object, which nobody here looks at. A null key or
value has no schema: it is how a record of a compacted topic is deleted.

Each schema is asked for, so a batch must not have very many: a producer has a few in use.
"""

import struct
from dataclasses import dataclass
from typing import Final

from protocol.batch import HEADER_BYTES, read_header
from protocol.decompression import decompress
from protocol.errors import InvalidRecords
from protocol.record_spans import field_spans

PREFIX_BYTES: Final = 5
MAX_IDS: Final = 100
"""Different ones of the keys of a batch, and of its values."""

_MAGIC: Final = 0
_ID: Final = struct.Struct(">i").unpack_from


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaIds:
    """The schema ids of a batch, each once."""

    keys: frozenset[int]
    values: frozenset[int]


def schema_ids(batch: memoryview, *, of_keys: bool, of_values: bool) -> SchemaIds:
    """Return the schema ids that a batch's keys, values or both begin with.

    Raises:
        InvalidRecords: one of them has none, they have more than MAX_IDS, or the records cannot be
            read.
        CorruptBatch, DecompressedTooLarge: the records cannot be read.
    """
    header = read_header(batch)
    payload = decompress(header.codec, batch[HEADER_BYTES:])
    keys: set[int] = set()
    values: set[int] = set()
    for key_at, key_length, value_at, value_length in field_spans(payload, header.record_count):
        if of_keys and key_length >= 0:
            keys.add(_schema_id(payload, key_at, key_length, "key"))
        if of_values and value_length >= 0:
            values.add(_schema_id(payload, value_at, value_length, "value"))
        if len(keys) > MAX_IDS or len(values) > MAX_IDS:
            raise InvalidRecords(f"a batch of more than {MAX_IDS} schemas")
    return SchemaIds(keys=frozenset(keys), values=frozenset(values))


def _schema_id(payload: bytes, at: int, length: int, what: str) -> int:
    if length >= PREFIX_BYTES and payload[at] == _MAGIC:
        return int(_ID(payload, at + 1)[0])
    raise InvalidRecords(f"a record's {what} does not begin with the id of a schema")
