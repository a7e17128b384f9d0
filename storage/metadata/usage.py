"""The metadata port's usage: what topics and clients ask of the object store, hour by hour.

Contract, checked for Postgres and for the in-memory fake by tests/contracts/test_usage.py:
- `add_usage` adds to what is there: several brokers count the same hour, topic and client.
- A topic keeps the name that it had when it was counted last, also after it is gone.
- An hour is kept until `forget_usage`; nothing else takes it away.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol
from uuid import UUID

HOUR_MS: Final = 60 * 60 * 1000
NO_TOPIC: Final = UUID(int=0)
"""For what is done for no topic in particular, such as a LIST of the whole store."""

# Clients that are none; a client that calls itself so is counted with them.
BROKER_CLIENT: Final = "(broker)"
UPKEEP_CLIENT: Final = "(upkeep)"
OTHER: Final = "(other)"
DELETED_TOPIC: Final = "(deleted)"
"""Of a topic that was gone before anything of it was added; no topic can have this name."""


class UsageBy(StrEnum):
    """What usage is added up by: a topic's name, a client's id, or a day (YYYY-MM-DD, UTC)."""

    TOPIC = "topic"
    CLIENT = "client"
    DAY = "day"


@dataclass(slots=True, kw_only=True)
class UsageCounts:
    """What was counted, and is still being added to.

    Attributes:
        puts, gets: requests. One that served several is shared out among them, so each may have a
            fraction; together they have the whole.
        put_bytes, get_bytes: that went to, and came from, the object store.
        lists: requests, of up to 1,000 objects each.
        deletes: objects.
        produced_bytes: of batches, as clients sent them.
        fetched_bytes: of batches, as clients got them.
    """

    puts: float = 0.0
    put_bytes: int = 0
    gets: float = 0.0
    get_bytes: int = 0
    lists: float = 0.0
    deletes: float = 0.0
    produced_bytes: int = 0
    fetched_bytes: int = 0

    def add(self, more: "UsageCounts") -> None:
        """Add each number to its own."""
        self.puts += more.puts
        self.put_bytes += more.put_bytes
        self.gets += more.gets
        self.get_bytes += more.get_bytes
        self.lists += more.lists
        self.deletes += more.deletes
        self.produced_bytes += more.produced_bytes
        self.fetched_bytes += more.fetched_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRow:
    """What one client asked of one topic in one hour.

    Attributes:
        hour_ms: when the hour began; a multiple of HOUR_MS.
        topic_id: or NO_TOPIC.
        client_id: as the client calls itself; empty if it does not.
    """

    hour_ms: int
    topic_id: UUID
    client_id: str
    counts: UsageCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageTotal:
    """Rows that have something in common.

    Attributes:
        key: what they have in common; empty for no topic, or clients without an id. OTHER: rows of
            all keys beyond a limit, too.
        first_hour_ms: of the first of them.
    """

    key: str
    first_hour_ms: int
    counts: UsageCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBytes:
    """What lies in the object store.

    Attributes:
        topics: by name, bytes that the index names.
        total: of all objects; more than that of the topics by what waits for the sweeper.
    """

    topics: Mapping[str, int]
    total: int


class UsageStore(Protocol):
    """See the module's docstring for what every implementation promises."""

    async def add_usage(self, rows: Sequence[UsageRow]) -> None:
        """Add rows, no two of the same hour, topic and client.

        Raises:
            MetadataUnavailable: no answer; they may or may not have been added.
        """

    async def usage(
        self, since_ms: int, until_ms: int, by: UsageBy, *, limit: int
    ) -> list[UsageTotal]:
        """Return what was counted in hours that began in [since_ms, until_ms), in key order.

        Args:
            since_ms: the first moment.
            until_ms: the moment behind the last.
            by: what rows are added up by.
            limit: those keys with the most requests are returned; the rest together as OTHER.
        """

    async def stored_bytes(self) -> StoredBytes:
        """Return what lies in the object store now; it looks at all of the index."""

    async def forget_usage(self, older_than_ms: int, limit: int) -> int:
        """Remove at most `limit` rows of hours that began so long ago; return how many."""


def hour_of(timestamp_ms: int) -> int:
    """Return when the hour began that `timestamp_ms` lies in."""
    return timestamp_ms - timestamp_ms % HOUR_MS
