"""The bytes that classic consumers put into JoinGroup and get from SyncGroup.

Kafka calls them ConsumerProtocolSubscription and ConsumerProtocolAssignment; every version only
adds fields at the end, so versions that are not known yet read as the newest known one.
"""

import struct
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from coordinator.catalog import Catalog
from coordinator.classic_subscription import UnreadableSubscription
from protocol.ids import Partition

NEWEST_VERSION: Final = 3

PartitionsByName = Mapping[str, Sequence[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSubscription:
    """What a classic consumer says about itself.

    Attributes:
        owned: partitions that it did not give up before it joined (KIP-429); version 1 and later.
        rack_id: version 3 and later (KIP-881).
    """

    version: int
    topics: frozenset[str]
    owned: PartitionsByName
    rack_id: str | None


def read_subscription(metadata: bytes) -> ConsumerSubscription:
    """Read a ConsumerProtocolSubscription.

    Raises:
        UnreadableSubscription: it is none.
    """
    reader = _Reader(metadata)
    version = reader.version()
    topics = frozenset(reader.text() for _ in reader.counted())
    reader.blob()
    owned = reader.partitions() if version >= 1 else {}
    if version >= 2:
        reader.int32()  # the generation that it owned them in: we know better
    rack_id = reader.nullable_text() if version >= 3 else None
    return ConsumerSubscription(version=version, topics=topics, owned=owned, rack_id=rack_id)


def read_assignment(assignment: bytes) -> tuple[PartitionsByName, bytes]:
    """Read a ConsumerProtocolAssignment; return the partitions, and the assignor's own data.

    Raises:
        UnreadableSubscription: it is none. (Nothing at all is an empty assignment.)
    """
    if not assignment:
        return {}, b""
    reader = _Reader(assignment)
    reader.version()
    return reader.partitions(), reader.blob()


def write_assignment(
    partitions: Iterable[Partition], catalog: Catalog, *, version: int = NEWEST_VERSION
) -> bytes:
    """Write a ConsumerProtocolAssignment; partitions of topics that are gone are left out."""
    by_name = defaultdict[str, list[int]](list)
    for topic_id, index in sorted(partitions):
        if (topic := catalog.by_id.get(topic_id)) is not None:
            by_name[topic.name].append(index)
    parts = [struct.pack(">hi", min(version, NEWEST_VERSION), len(by_name))]
    for name in sorted(by_name):
        encoded, indexes = name.encode(), by_name[name]
        parts.append(struct.pack(">h", len(encoded)) + encoded)
        parts.append(struct.pack(f">i{len(indexes)}i", len(indexes), *indexes))
    parts.append(struct.pack(">i", -1))  # no data of an assignor
    return b"".join(parts)


def to_partitions(by_name: PartitionsByName, catalog: Catalog) -> frozenset[Partition]:
    """Give names their topic ids; what does not exist is left out."""
    return frozenset(
        Partition(topic.topic_id, index)
        for name, indexes in by_name.items()
        if (topic := catalog.by_name.get(name)) is not None
        for index in indexes
        if 0 <= index < topic.partition_count
    )


class _Reader:
    """Reads what a peer wrote; never beyond its end, never more work than it has bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def version(self) -> int:
        version = self._number(">h")
        if version < 0:
            raise UnreadableSubscription(f"version {version}")
        return min(version, NEWEST_VERSION)

    def int32(self) -> int:
        return self._number(">i")

    def counted(self) -> range:
        count = self.int32()
        if not 0 <= count <= len(self._data):
            raise UnreadableSubscription(f"{count} elements in {len(self._data)} bytes")
        return range(count)

    def text(self) -> str:
        text = self.nullable_text()
        if text is None:
            raise UnreadableSubscription("a text is missing")
        return text

    def nullable_text(self) -> str | None:
        length = self._number(">h")
        if length < 0:
            return None
        try:
            return self._take(length).decode()
        except UnicodeDecodeError as error:
            raise UnreadableSubscription("a text is not UTF-8") from error

    def blob(self) -> bytes:
        length = self.int32()
        return self._take(length) if length > 0 else b""

    def partitions(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for _ in self.counted():
            name = self.text()
            found[name] = [self.int32() for _ in self.counted()]
        return found

    def _number(self, layout: str) -> int:
        number: int = struct.unpack(layout, self._take(struct.calcsize(layout)))[0]
        return number

    def _take(self, length: int) -> bytes:
        end = self._at + length
        if end > len(self._data):
            raise UnreadableSubscription(f"{length} bytes at byte {self._at} go beyond the end")
        taken = self._data[self._at : end]
        self._at = end
        return taken
