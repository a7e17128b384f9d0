"""One fetch session (KIP-227): a client names only what changes of what it wants.

What a Fetch costs is that of the partitions that are worth a look, however many others there are.
A partition is worth one from when the client says something of it, or its log tells of growth,
until there is nothing more to read or to tell.
"""

import asyncio
from collections.abc import Hashable, Iterator, Sequence
from typing import Final
from uuid import UUID

from broker.fetch_context import Found, Growth, Wanted, is_told_at_once
from protocol.fetch import FetchRequest, PartitionWanted, TopicWanted
from protocol.fetch_response import PartitionAnswer, TopicAnswer

FIRST_EPOCH: Final = 1
LAST_EPOCH: Final = 2**31 - 1
AWAKE_S: Final = 1.0
"""For so long after a Fetch began other brokers' commits are looked for: more of them will come."""


class Followed:
    """One partition of a session; its log tells it of growth (storage.partition_log.Waiter).

    Attributes:
        topic: what the client knows its topic by.
        partition: what the client wants.
        wanted: the same with its log; None if there is nothing to read for it here.
        refusal: what is told then.
        told: the high watermark and the log start offset that the client knows; None if it is to
            be told in any case.
    """

    __slots__ = (
        "partition",
        "read_committed",
        "refusal",
        "session",
        "told",
        "topic",
        "wanted",
    )

    def __init__(
        self, session: "FetchSession", topic: UUID | str, partition: PartitionWanted
    ) -> None:
        self.session = session
        self.topic = topic
        self.partition = partition
        self.read_committed = False
        self.wanted: Wanted | None = None
        self.refusal: PartitionAnswer | None = None
        self.told: tuple[int, int] | None = None

    @property
    def waits(self) -> bool:
        return self.session.is_awake()

    def grown(self, size: int) -> None:
        self.session.grown(self, size)

    def moved(self) -> None:
        self.session.moved(self)

    def want(self, partition: PartitionWanted) -> None:
        """Go on as the client says."""
        self.partition = partition
        if self.wanted is not None:
            self.wanted.partition = partition

    def found(self, found: Found, *, read_committed: bool) -> None:
        """Take what there is to read, or why there is nothing."""
        if isinstance(found, Wanted):
            self.wanted, self.read_committed = found, read_committed
            found.log.add_waiter(self)
        else:
            self.refusal, self.told = found, None

    def let_go(self) -> None:
        """Forget what was found."""
        if self.wanted is not None:
            self.wanted.log.remove_waiter(self)
        self.wanted = self.refusal = None

    def has_news(self) -> bool:
        """Whether it is worth another look: else its log tells when it is."""
        one = self.wanted
        if one is None or one.log.removed or one.answer.error_code:
            return True
        log = one.log
        end_offset = log.last_stable_offset if self.read_committed else log.high_watermark
        known = (log.high_watermark, log.log_start_offset)
        return one.partition.offset < end_offset or self.told != known

    def answer(self) -> PartitionAnswer | None:
        """Return what the client is told, if there is anything to tell; it then knows that."""
        if self.wanted is None:
            return self.refusal
        answer, self.wanted.answer = self.wanted.answer, PartitionAnswer(self.partition.index)
        if answer.error_code:
            self.let_go()  # to be found anew: another broker may be the one to read it from by then
            self.told = None  # when the error is gone, that is news
            return answer
        told, self.told = self.told, (answer.high_watermark, answer.log_start_offset)
        return answer if answer.size or told != self.told else None


class FetchSession:
    """What one client wants.

    Attributes:
        by_topic_id: its topics have ids; else names, before v13.
        epoch: of the next Fetch.
        refuses: there is a partition of which nothing can be read here.
        hurries: that is told at once.
    """

    def __init__(self, session_id: int, *, by_topic_id: bool) -> None:
        self.session_id = session_id
        self.by_topic_id = by_topic_id
        self.epoch = FIRST_EPOCH
        self.refuses = self.hurries = False
        self._followed: dict[tuple[UUID | str, int], Followed] = {}
        self._ready: dict[Followed, None] = {}
        """What is worth a look; what has waited longest for records comes first."""
        self._looked: Sequence[Followed] = ()
        self._growth: Growth | None = None
        self._basis: Hashable = None
        self._read_committed = False
        self._asked_s = 0.0
        self._slept = False

    def __len__(self) -> int:
        return len(self._followed)

    def change(self, fetch: FetchRequest) -> None:
        """Take over what a Fetch says."""
        for topic in fetch.topics:
            key = topic.key
            for partition in topic.partitions:
                followed = self._followed.get((key, partition.index))
                if followed is None:
                    followed = Followed(self, key, partition)
                    self._followed[key, partition.index] = followed
                else:
                    followed.want(partition)
                self._ready[followed] = None
        for forgotten in fetch.forgotten:
            for index in forgotten.partitions:
                left = self._followed.pop((forgotten.key, index), None)
                if left is not None:
                    self._ready.pop(left, None)
                    left.let_go()

    def proceed(self) -> None:
        """Expect the next Fetch."""
        self.epoch = FIRST_EPOCH if self.epoch == LAST_EPOCH else self.epoch + 1

    def close(self) -> None:
        """Let go of everything."""
        for followed in self._followed.values():
            followed.let_go()
        self._followed.clear()
        self._ready.clear()

    def unknown(
        self, basis: Hashable, *, read_committed: bool
    ) -> Iterator[tuple[TopicWanted, Sequence[Followed]]]:
        """Begin a Fetch; return by topic what has to be found, as it is not known, or not any more.

        Args:
            basis: what decides what is found; all is found anew when it has changed.
            read_committed: only such records are wanted.
        """
        self._asked_s = asyncio.get_running_loop().time()
        basis = (basis, read_committed)
        if basis != self._basis:
            self._basis, self._read_committed = basis, read_committed
            for followed in self._followed.values():
                followed.let_go()
                self._ready[followed] = None
        by_topic: dict[UUID | str, list[Followed]] = {}
        for followed in self._ready:
            if followed.wanted is None or followed.wanted.log.removed:
                followed.let_go()
                by_topic.setdefault(followed.topic, []).append(followed)
        for topic, of_topic in by_topic.items():
            partitions = [followed.partition for followed in of_topic]
            yield TopicWanted(*_named(topic), partitions), of_topic

    def found(self, followed: Sequence[Followed], found: Sequence[Found]) -> None:
        """Take what was found of a topic that was not known."""
        for one, its in zip(followed, found, strict=True):
            one.found(its, read_committed=self._read_committed)

    # --- what a Fetch looks at (broker.fetch_context.FetchContext)

    def begin(self, growth: Growth) -> Sequence[Wanted]:
        self._growth = growth
        if self._slept:
            self._wake_up()
        self._looked = list(self._ready)
        wanted = [one.wanted for one in self._looked if one.wanted is not None]
        self.refuses = len(wanted) < len(self._looked)
        refused = [one.refusal for one in self._looked if one.refusal] if self.refuses else []
        self.hurries = self.refuses and is_told_at_once(refused, len(self))
        return wanted

    def end(self) -> None:
        self._growth = None
        for followed in self._looked:
            if not followed.has_news():
                self._ready.pop(followed, None)

    def answers(self) -> list[TopicAnswer]:
        """Return what is new to the client, which then knows it."""
        topics: dict[UUID | str, TopicAnswer] = {}
        for followed in self._looked:
            answer = followed.answer()
            if answer is None:
                continue
            topic = topics.get(followed.topic)
            if topic is None:
                topic = topics[followed.topic] = TopicAnswer(*_named(followed.topic), [])
            topic.partitions.append(answer)
            if answer.size or answer.error_code:  # others come first the next time
                self._ready.pop(followed, None)
                self._ready[followed] = None
            elif not followed.has_news():
                self._ready.pop(followed, None)
        return list(topics.values())

    def discard(self) -> None:
        """Tell the client nothing."""
        for followed in self._looked:
            if followed.wanted is not None:
                followed.wanted.answer = PartitionAnswer(followed.partition.index)

    def _wake_up(self) -> None:
        """Have all its partitions polled for again."""
        self._slept = False
        for followed in self._followed.values():
            if followed.wanted is not None:
                followed.wanted.log.add_waiter(followed)

    # --- what its partitions tell

    def is_awake(self) -> bool:
        """Whether a Fetch waits, or did just now."""
        if self._growth is not None:
            return True
        if asyncio.get_running_loop().time() - self._asked_s < AWAKE_S:
            return True
        self._slept = True
        return False

    def grown(self, followed: Followed, size: int) -> None:
        """Take note of growth of one of them (see Growth)."""
        self._ready[followed] = None
        if self._growth is not None:
            self._growth.grown(size)

    def moved(self, followed: Followed) -> None:
        """Take note that one of them has a high watermark to tell, which nobody waits for."""
        self._ready[followed] = None


def _named(topic: UUID | str) -> tuple[str, UUID | None]:
    """Return a topic's name and id, of which a request has one."""
    return (topic, None) if isinstance(topic, str) else ("", topic)
