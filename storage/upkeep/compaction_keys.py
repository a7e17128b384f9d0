"""The latest offset of each key, in memory that does not grow (log compaction).

A table with open addressing: a slot is 21 bytes, whatever the length of the key. Of the key it has
two hashes of 64 bits: one key is taken for another where both are the same, so once in 2**128, and
records would be lost then. Both are SipHash with a secret of this process (PEP 456), so nobody can
choose a key that collides with another one's. A third, of 8 bits, lets runs of slots be searched
without a look at each: so the table may be filled to nine tenths.
"""

import sys
from array import array
from typing import Final

SLOT_BYTES: Final = 21
LOAD: Final = 0.9
NOT_THERE: Final = -1

_OVERFLOW_SLOTS: Final = 4096  # behind the last home: a run of used slots does not wrap around
_OFFSETS: Final = 2**32  # that a table can tell apart
_SECOND: Final = b"\x02"


class LatestOffsets:
    """See the module's docstring.

    Args:
        max_bytes: of the table.
        max_keys: how many there can be: the table need not be larger.
        start_offset: the first one that is added.

    Attributes:
        end_offset: the keys of all records from `start_offset` to before it are known; set by who
            adds them.
        keys: how many are in the table.
    """

    __slots__ = (
        "_firsts",
        "_homes",
        "_limit",
        "_offsets",
        "_seconds",
        "_start_offset",
        "_tags",
        "end_offset",
        "keys",
    )

    def __init__(self, *, max_bytes: int, max_keys: int, start_offset: int) -> None:
        assert sys.hash_info.hash_bits == 64
        slots = min(max_bytes // SLOT_BYTES, int(max_keys / LOAD) + 1 + _OVERFLOW_SLOTS)
        slots = max(slots, 2)
        self.end_offset = start_offset
        self.keys = 0
        self._start_offset = start_offset
        self._homes = max(slots - _OVERFLOW_SLOTS, slots // 2)
        self._limit = max(int(slots * LOAD), 1)
        self._tags = bytearray(slots)  # 0: the slot is free; the last one always is
        self._firsts = array("q", (0,)) * slots
        self._seconds = array("q", (0,)) * slots
        self._offsets = array("I", (0,)) * slots

    def add(self, key: bytes, offset: int) -> bool:
        """Take note of a record that is later than all that were added; False if there is no room.

        The offset of a key that is known already always has room, unless it is 2**32 or more
        behind the first one.
        """
        if offset - self._start_offset >= _OFFSETS:
            return False
        first = hash(key)
        second = hash(_SECOND + key)
        tag = second & 0xFF or 1
        end = first % self._homes
        tags = self._tags
        seen = tags[end]
        if seen:  # looked at by itself, because most keys are at home, or find it free
            if seen == tag and self._firsts[end] == first and self._seconds[end] == second:
                self._offsets[end] = offset - self._start_offset
                return True
            at = end
            end = tags.find(0, at + 1)
            while (at := tags.find(tag, at + 1, end)) >= 0:
                if self._firsts[at] == first and self._seconds[at] == second:
                    self._offsets[at] = offset - self._start_offset
                    return True
        if self.keys >= self._limit or end == len(tags) - 1:
            return False
        self.keys += 1
        tags[end] = tag
        self._firsts[end] = first
        self._seconds[end] = second
        self._offsets[end] = offset - self._start_offset
        return True

    def latest(self, key: bytes) -> int:
        """Return the offset of the last record with this key; NOT_THERE if none was added."""
        first = hash(key)
        at = first % self._homes
        tags = self._tags
        seen = tags[at]
        if not seen:
            return NOT_THERE
        second = hash(_SECOND + key)
        tag = second & 0xFF or 1
        if seen == tag and self._firsts[at] == first and self._seconds[at] == second:
            return self._offsets[at] + self._start_offset
        end = tags.find(0, at + 1)
        while (at := tags.find(tag, at + 1, end)) >= 0:
            if self._firsts[at] == first and self._seconds[at] == second:
                return self._offsets[at] + self._start_offset
        return NOT_THERE
