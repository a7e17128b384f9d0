"""The partitions that a fetch looks at, and whether it has enough of them (broker/fetching.py)."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from kio.schema.errors import ErrorCode

from broker.cluster import Cluster
from protocol.batch import read_header
from protocol.fetch import NO_SESSION, PartitionWanted, TopicWanted
from protocol.fetch_response import PartitionAnswer, TopicAnswer
from storage.partition_log import UNKNOWN, PartitionLog


@dataclass(slots=True)
class Wanted:
    """One partition of a fetch: what is asked for, and the answer in the making.

    Attributes:
        stable_offset, aborted_count: a snapshot, taken before the records; for READ_COMMITTED only.
        is_foremost: nothing that was asked for before it has given records from memory.
    """

    partition: PartitionWanted
    log: PartitionLog
    answer: PartitionAnswer
    stable_offset: int = -1
    aborted_count: int = 0
    is_foremost: bool = False

    @property
    def is_in_range(self) -> bool:
        """Whether its offset is in the log, as far as is known here."""
        log = self.log
        return UNKNOWN < log.log_start_offset <= self.partition.offset <= log.high_watermark


Found = Wanted | PartitionAnswer
"""A partition that can be read here, or what is told instead."""

_LASTING: Final = frozenset(
    (
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.topic_authorization_failed,
    )
)


class Growth:
    """Resolves `enough` when the awaited partitions have grown by `min_bytes`."""

    waits = True

    def __init__(self, min_bytes: int, *, read_committed: bool) -> None:
        self.read_committed = read_committed
        self._missing = min_bytes
        self.enough: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def grown(self, size: int) -> None:
        """Count bytes that came; 0 says that there is something else to look at."""
        self._missing -= size
        if (self._missing <= 0 or size == 0) and not self.enough.done():
            self.enough.set_result(None)

    def moved(self) -> None:
        """Go on waiting: that is told with what comes next."""


class FetchContext(Protocol):
    """Which partitions a fetch looks at, and what it comes to; Kafka's term for it (KIP-227).

    Attributes:
        session_id: what the client can go on with; NO_SESSION for nothing.
    """

    session_id: int

    @property
    def refuses(self) -> bool:
        """Whether of some there is nothing to read here."""

    @property
    def hurries(self) -> bool:
        """Whether that is told at once."""

    def __len__(self) -> int:
        """Return how many partitions the client wants."""

    def begin(self, growth: Growth) -> Sequence[Wanted]:
        """Return what to look at now; `growth` hears of all that comes until `end`."""

    def end(self) -> None: ...

    def answers(self) -> list[TopicAnswer]:
        """Return what the client is told."""

    def discard(self) -> None:
        """Tell the client nothing: it comes again."""


class SessionlessFetchContext:
    """A fetch without a session: all that is asked for is looked at each time."""

    def __init__(self) -> None:
        self.session_id = NO_SESSION
        self._wanted: list[Wanted] = []
        self._refused: list[PartitionAnswer] = []
        self._topics: list[tuple[TopicWanted, Sequence[Found]]] = []
        self._growth: Growth | None = None
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def refuses(self) -> bool:
        return bool(self._refused)

    @property
    def hurries(self) -> bool:
        return is_told_at_once(self._refused, self._size)

    def add(self, topic: TopicWanted, found: Sequence[Found]) -> None:
        """Take what was found of a topic, in the order in which it was asked for."""
        for one in found:
            if isinstance(one, Wanted):
                self._wanted.append(one)
            else:
                self._refused.append(one)
        self._topics.append((topic, found))
        self._size += len(found)

    def begin(self, growth: Growth) -> Sequence[Wanted]:
        self._growth = growth
        for one in self._wanted:
            one.log.add_waiter(growth)
        return self._wanted

    def end(self) -> None:
        assert self._growth is not None
        for one in self._wanted:
            one.log.remove_waiter(self._growth)

    def answers(self) -> list[TopicAnswer]:
        topics = []
        for topic, found in self._topics:
            partitions = [one.answer if isinstance(one, Wanted) else one for one in found]
            topics.append(TopicAnswer(topic.name, topic.topic_id, partitions))
        return topics

    def discard(self) -> None:
        self._topics.clear()


def is_told_at_once(refused: Sequence[PartitionAnswer], wanted_count: int) -> bool:
    """Return whether a fetch of so many partitions has something to tell before its time.

    What the client finds elsewhere, or will find here soon, is. What will be refused again is not
    while there are others to wait for, as in Kafka: who asks on for a deleted topic, or for one
    that it may not read, would else ask without a pause.
    """
    if len(refused) == wanted_count:
        return True
    return any(answer.error_code not in _LASTING for answer in refused)


def no_index(cluster: Cluster) -> ErrorCode:
    """Return what is told of a partition that Postgres would have to be asked about.

    The Java consumer repeats either, and gives up on REQUEST_TIMED_OUT.
    """
    if cluster.brokers.is_cut_off:
        return ErrorCode.not_leader_or_follower
    return ErrorCode.kafka_storage_error


def counted_bytes(wanted: Iterable[Wanted], *, read_committed: bool) -> int:
    """Return the bytes that count towards min_bytes.

    Kafka's answers end within a batch, so a partition that has more than its limit reaches it.
    Batches are whole here and leave some of it, but more will not fit, however long one waits.
    """
    counted = 0
    for one in wanted:
        answer, end_offset = one.answer, one.partition.offset
        if answer.size:
            last = read_header(answer.records[-1])
            end_offset = last.base_offset + last.last_offset_delta + 1
        readable = one.stable_offset if read_committed else answer.high_watermark
        is_cut = end_offset < readable
        counted += max(answer.size, one.partition.max_bytes) if is_cut else answer.size
    return counted
