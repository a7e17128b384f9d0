"""What is exported once per cluster: topics, groups and their lag, from Postgres.

Were it exported by every broker, there would be as many copies of each series as brokers, and sums
over them would be wrong. So the controller exports it, and it alone; when another broker becomes
controller, the series go over to it with the next scrape. Only while two brokers disagree about who
is alive, two or none may export it: for a moment, or for as long as a controller that is cut off
from Postgres does not learn that it is none any more; then the age of its answers grows.

Nothing is asked of Postgres but when somebody scrapes, by one statement for all partitions and one
for all offsets of groups, one after the other. Only the bytes of topics, for which every row of the
index is looked at, may be asked for meanwhile. Each answer is good for cluster_interval_ms at
least, and for REST times as long as it took. While Postgres does not answer, the answers before are
exported, with their age.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, TypeVar

import structlog

from broker.broker_set import BrokerSet
from broker.http.cluster_families import (
    cluster_family,
    group_families,
    lag_families,
    topic_families,
)
from broker.http.exposition import Family, label_text
from broker.http.metrics_config import MetricsConfig
from storage.errors import MetadataUnavailable
from storage.metadata.groups import GroupListing
from storage.metadata.port import MetadataStore

PATIENCE_S: Final = 5.0
"""How long a scrape waits for a new answer; Prometheus gives it ten seconds."""

REST: Final = 20
"""How much longer Postgres is left alone than an answer took; FAILED_REST if there was none, or a
short outage would make for a long one of what is exported."""

FAILED_REST: Final = 5

log = structlog.get_logger()

AnswerT = TypeVar("AnswerT")


class Question(Generic[AnswerT]):
    """Something that is asked of Postgres now and then, and by one at a time.

    Args:
        turn: shared by questions that are not asked at the same time.
        clock: seconds; only differences count.

    Attributes:
        answer: the last one; None before the first.
        answered_s: when it came, by the clock.
    """

    def __init__(
        self,
        ask: Callable[[], Awaitable[AnswerT]],
        *,
        interval_s: float,
        turn: asyncio.Lock,
        clock: Callable[[], float],
    ) -> None:
        self._ask = ask
        self._interval_s = interval_s
        self._turn = turn
        self._clock = clock
        self._next_s = float("-inf")
        self._asking: asyncio.Task[None] | None = None
        self.answer: AnswerT | None = None
        self.answered_s = 0.0

    async def renew(self) -> None:
        """Ask again if it is time, and wait for the answer, but not for long."""
        if self._asking is None or self._asking.done():
            if self._clock() < self._next_s:
                return
            self._asking = asyncio.create_task(self._renew_in_turn())
        asking = self._asking
        await asyncio.wait((asking,), timeout=PATIENCE_S)
        if asking.done() and not asking.cancelled():
            asking.result()  # raises if there was a bug: the scrape fails, and is logged

    async def close(self) -> None:
        """Give up what is being asked."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait((self._asking,))

    async def _renew_in_turn(self) -> None:
        async with self._turn:
            await self._renew()

    async def _renew(self) -> None:
        began_s = self._clock()
        try:
            self.answer = await self._ask()
        except MetadataUnavailable as error:
            log.warning("no news of the cluster to export", reason=str(error))
            rest = FAILED_REST
        else:
            self.answered_s = self._clock()
            rest = REST
        took_s = self._clock() - began_s
        self._next_s = began_s + max(self._interval_s, rest * took_s)


class ClusterMetrics:
    """Exports them while this broker is the controller.

    Args:
        brokers: the cluster as it is now.
        now_ms: the wall clock.
        clock: seconds; only differences count.
    """

    def __init__(
        self,
        store: MetadataStore,
        brokers: Callable[[], BrokerSet],
        config: MetricsConfig,
        *,
        now_ms: Callable[[], int],
        clock: Callable[[], float],
    ) -> None:
        self._store = store
        self._brokers = brokers
        self._limit = config.cluster_max_partitions
        self._interval_s = config.cluster_interval_ms / 1000
        self._now_ms = now_ms
        self._clock = clock
        self._begin()

    def _begin(self) -> None:
        store, limit, turn = self._store, self._limit, asyncio.Lock()
        self._topics = self._question(lambda: store.topic_progress(limit), turn)
        self._progress = self._question(lambda: store.group_progress(limit), turn)
        self._groups = self._question(self._list_groups, turn)
        self._stored = self._question(store.stored_bytes, asyncio.Lock())

    async def _list_groups(self) -> list[GroupListing]:
        listed: list[GroupListing] = []
        async for one in self._store.list_groups():
            if len(listed) == self._limit:
                break
            listed.append(one)
        return listed

    def _question(
        self, ask: Callable[[], Awaitable[AnswerT]], turn: asyncio.Lock
    ) -> Question[AnswerT]:
        return Question(ask, interval_s=self._interval_s, turn=turn, clock=self._clock)

    async def families(self) -> list[Family]:
        """Return what is to be exported now; nothing if another broker does it."""
        brokers = self._brokers().membership
        controller = next((one.node_id for one in brokers.brokers), None)
        if brokers.node_id != controller:
            await self.close()
            self._begin()
            return []
        questions = (self._topics, self._progress, self._groups, self._stored)
        await asyncio.gather(*(question.renew() for question in questions))
        return [
            cluster_family("brokers", "Brokers that are alive.", [("", len(brokers.brokers))]),
            *self._about_answers(),
            *topic_families(self._topics.answer or (), self._stored.answer),
            *group_families(self._groups.answer or ()),
            *lag_families(self._progress.answer or (), self._now_ms()),
        ]

    async def close(self) -> None:
        """Give up what is being asked of Postgres."""
        for question in (self._topics, self._progress, self._groups, self._stored):
            await question.close()

    def _about_answers(self) -> list[Family]:
        """Return how old each answer is, and whether it was cut off at the limit."""
        now_s = self._clock()
        questions: dict[str, Question[Any]] = {
            "topics": self._topics,
            "group_offsets": self._progress,
            "groups": self._groups,
            "bytes": self._stored,
        }
        ages = [
            (label_text(of=name), now_s - question.answered_s)
            for name, question in questions.items()
            if question.answer is not None
        ]
        counts = {
            "topics": sum(len(one.partitions) for one in self._topics.answer or ()),
            "group_offsets": sum(len(one.partitions) for one in self._progress.answer or ()),
            "groups": len(self._groups.answer or ()),
        }
        limited = [
            (label_text(of=name), int(count >= self._limit)) for name, count in counts.items()
        ]
        return [
            cluster_family("metrics_age_seconds", "Since Postgres answered.", ages),
            cluster_family("metrics_limited", "1 if some may be left out.", limited),
        ]
