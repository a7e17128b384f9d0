"""Which partition a record goes to, for many records at once: as Kafka's producers choose.

A key has the partition that murmur2 gives it in every Kafka client, so records of a key meet those
that others have written. Keys of a length are hashed side by side, four bytes of all of them at a
time; no key costs Python code of its own unless it is very long.
"""

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark.sinks.direct_records import buffer_of

Longs = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint32]

STICKY_RECORDS: Final = 1000
"""Records without a key stay with a partition for so long: whole batches compress better."""

_SEED: Final = 0x9747B28C
_FACTOR: Final = np.uint32(0x5BD1E995)
_SHIFT: Final = np.uint32(24)
_LONG_KEY: Final = 4096
_MASK: Final = 0xFFFF_FFFF


def choose_partitions(keys: pa.Array, partition_count: int, first: int) -> Longs:
    """Return a partition for each key.

    Args:
        keys: binary; null spreads a record over all partitions.
        partition_count: of the topic.
        first: where records without a key begin; any number.
    """
    hashes = murmur2(keys)
    chosen = ((hashes & np.uint32(0x7FFF_FFFF)) % np.uint32(partition_count)).astype(np.int64)
    if keys.null_count:
        spread = first + np.arange(len(keys), dtype=np.int64) // STICKY_RECORDS
        keyless = pc.is_null(keys).to_numpy(zero_copy_only=False)
        chosen = np.where(keyless, spread % partition_count, chosen)
    return chosen


def murmur2(keys: pa.Array) -> Words:
    """Return Kafka's 32-bit hash of each key, unsigned; of null, that of an empty key."""
    data, offsets = buffer_of(keys)
    lengths = np.diff(offsets)
    starts = offsets[:-1]
    padded = np.concatenate((data, np.zeros(4, np.uint8)))
    # one word from every byte on: reading a word at any byte is one lookup
    words = np.ndarray((len(padded) - 3,), "<u4", padded, strides=(1,))
    hashes = (np.uint32(_SEED) ^ lengths.astype(np.uint32)).astype(np.uint32)
    long_keys = np.flatnonzero(lengths >= _LONG_KEY)
    active = np.flatnonzero((lengths >= 4) & (lengths < _LONG_KEY))
    at = 0
    while len(active):
        mixed = words[starts[active] + at].astype(np.uint32) * _FACTOR
        mixed = (mixed ^ (mixed >> _SHIFT)) * _FACTOR
        hashes[active] = (hashes[active] * _FACTOR) ^ mixed
        at += 4
        active = active[lengths[active] >= at + 4]
    hashes = _finish(hashes, words, starts, lengths)
    for number in long_keys.tolist():
        start, end = int(offsets[number]), int(offsets[number + 1])
        hashes[number] = _murmur2_of(data[start:end].tobytes())
    return hashes


def _finish(hashes: Words, words: Words, starts: Longs, lengths: Longs) -> Words:
    left = lengths & 3
    tails = np.flatnonzero(left)
    if len(tails):
        last = words[starts[tails] + lengths[tails] - left[tails]].astype(np.uint32)
        last &= np.uint32(_MASK) >> ((np.uint32(4) - left[tails].astype(np.uint32)) * np.uint32(8))
        hashes[tails] = (hashes[tails] ^ last) * _FACTOR
    hashes = (hashes ^ (hashes >> np.uint32(13))) * _FACTOR
    return hashes ^ (hashes >> np.uint32(15))


def _murmur2_of(key: bytes) -> int:
    factor = int(_FACTOR)
    value = (_SEED ^ len(key)) & _MASK
    whole = len(key) & ~3
    for word in np.frombuffer(key, "<u4", whole // 4).tolist():
        mixed = word * factor & _MASK
        mixed = (mixed ^ mixed >> 24) * factor & _MASK
        value = (value * factor & _MASK) ^ mixed
    if whole < len(key):
        value = (value ^ int.from_bytes(key[whole:], "little")) * factor & _MASK
    value = (value ^ value >> 13) * factor & _MASK
    return value ^ value >> 15
