"""What the upkeep process does: builds segments, compacts, expires and sweeps (D6).

Every step can be cut off at any moment, and be done by any broker's upkeep process.

    round    interval                            what it does
    build    upkeep.build_interval_ms            plans which partitions get a segment
    compact  log.cleaner.backoff.ms              plans which partitions are compacted
    retain   log.retention.check.interval.ms     storage/upkeep/retention.py
    sweep    upkeep.sweep_interval_ms            storage/upkeep/sweeper.py

A round is done by one process of the cluster; what it plans, by all of them. So what is set of the
whole cluster while it runs counts here, and what is set of one broker does not. While some of that
cannot be read, nothing expires and nothing is compacted: it may be what keeps records.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final
from uuid import UUID

import structlog

from broker.configs.broker_configs import BrokerConfig
from broker.configs.dynamic_broker_config import DynamicBrokerConfig
from broker.configs.entity_configs import EntityConfigs
from broker.memory_return import return_memory
from broker.upkeep.old_xmin import warn_if_old
from broker.upkeep.spare_processors import SpareProcessors, UnhurriedStore
from broker.upkeep.upkeep_loops import Loops
from broker.upkeep.upkeep_report import Count, UpkeepCounts, UpkeepReport, Work
from protocol.ids import Partition
from storage.config import UpkeepConfig
from storage.configs.topic_policies import TopicPolicies
from storage.metadata.port import MetadataStore
from storage.metadata.usage import UPKEEP_CLIENT
from storage.objects.objects_counted import CountedStore
from storage.objects.port import ObjectStore
from storage.upkeep.builder import Builder
from storage.upkeep.compaction import Compactor
from storage.upkeep.policies import TopicPolicy
from storage.upkeep.retention import Retention
from storage.upkeep.sweeper import Sweeper
from storage.usage_counter import UsageCounter
from storage.wall_clock import now_ms

TOPICS_S: Final = 1.0
REPORT_S: Final = 1.0
BACKLOG_S: Final = 10.0
OLDEST_XMIN_S: Final = 60.0

_NOT_WHOLE: Final = "not all configs of the cluster can be read"

log = structlog.get_logger()


class Upkeep:
    """The parts of the background work, wired."""

    def __init__(
        self,
        *,
        metadata: MetadataStore,
        objects: ObjectStore,
        config: UpkeepConfig,
        broker_config: BrokerConfig,
    ) -> None:
        self._config = config
        self._entity_configs = EntityConfigs(metadata)
        self._broker_config = DynamicBrokerConfig(broker_config, self._entity_configs)
        self._usage = UsageCounter(metadata, client_id=UPKEEP_CLIENT, now_ms=now_ms)
        spare = SpareProcessors(config.patience_ms / 1000)
        objects = CountedStore(UnhurriedStore(objects, spare), self._usage)
        self._metadata = metadata
        self._counts = UpkeepCounts()
        self._loops = Loops(metadata, self._counts)
        self._policies = TopicPolicies(metadata, broker_config.topic_values)
        self._broker_config.watch(self._follow_broker_config)
        self._builder = Builder(
            metadata=metadata,
            objects=objects,
            config=config,
            policy_of=self._policies.get,
            clock=time.monotonic,
        )
        self._compactor = Compactor(
            metadata=metadata,
            objects=objects,
            config=config,
            policy_of=self._cleaning_policy,
            clock=time.monotonic,
        )
        self._retention = Retention(
            metadata=metadata,
            policies=self._newest_policies,
            producer_unused_ms=lambda: self._broker_config.current.producer_id_expiration_ms,
        )
        self._sweeper = Sweeper(metadata=metadata, objects=objects, config=config)

    async def run(self, tell: Callable[[UpkeepReport], None]) -> None:
        """Work until cancelled; `tell` what was done, now and then."""
        config, loops = self._config, self._loops
        await loops.insist("topics", self._refresh)
        async with asyncio.TaskGroup() as tasks:
            for work in (
                self._follow_topics(),
                self._look_at_backlog(),
                self._look_at_oldest_xmin(),
                self._report(tell),
                self._usage.run(),
                return_memory(),
                loops.rounds(Work.BUILD, lambda: config.build_interval_ms, self._builder.plan),
                loops.rounds(Work.RETAIN, self._retention_interval_ms, self._retain),
                loops.rounds(Work.SWEEP, lambda: config.sweep_interval_ms, self._sweep),
                loops.tasks(Work.BUILD, lambda: config.build_interval_ms, self._builder.work_once),
                *self._compacting(),
            ):
                tasks.create_task(work)

    def _compacting(self) -> Iterable[Coroutine[Any, Any, None]]:
        if self._broker_config.current.log_cleaner_enable:
            every_ms = self._cleaner_backoff_ms
            yield self._loops.rounds(Work.COMPACT, every_ms, self._plan_compaction)
            yield self._loops.tasks(Work.COMPACT, every_ms, self._compactor.work_once)

    def _retention_interval_ms(self) -> int:
        return self._broker_config.current.log_retention_check_interval_ms

    def _cleaner_backoff_ms(self) -> int:
        return self._broker_config.current.log_cleaner_backoff_ms

    def _follow_broker_config(self) -> None:
        self._policies.follow(self._broker_config.current.topic_values)

    def _cleaning_policy(self, topic_id: UUID) -> TopicPolicy | None:
        return self._policies.get(topic_id) if self._broker_config.is_whole else None

    async def _refresh(self) -> None:
        """Learn what topics there are, and what their configs and the brokers' ask for."""
        await self._entity_configs.refresh()
        await self._policies.refresh()

    async def _newest_policies(self) -> Iterable[tuple[UUID, TopicPolicy]]:
        """Return what each topic keeps; nothing, and so nothing expires, if that is not known."""
        await self._refresh()
        return self._policies.all() if self._broker_config.is_whole else ()

    async def _follow_topics(self) -> None:
        while True:
            await asyncio.sleep(TOPICS_S)
            await self._loops.insist("topics", self._refresh)

    async def _look_at_backlog(self) -> None:
        while True:
            self._counts.backlog = await self._loops.insist("backlog", self._metadata.backlog)
            await asyncio.sleep(BACKLOG_S)

    async def _look_at_oldest_xmin(self) -> None:
        while True:
            ask = self._metadata.oldest_xmin
            self._counts.oldest_xmin = await self._loops.insist("transactions", ask)
            warn_if_old(self._counts.oldest_xmin)
            await asyncio.sleep(OLDEST_XMIN_S)

    async def _report(self, tell: Callable[[UpkeepReport], None]) -> None:
        while True:
            tell(self._counts.report(self._counted()))
            await asyncio.sleep(REPORT_S)

    def _counted(self) -> dict[Count, int]:
        """Return what builder and compaction count themselves."""
        built, compacted = self._builder.counts, self._compactor.counts
        return {
            Count.SEGMENTS_BUILT: built.segments,
            Count.BYTES_BUILT: built.size,
            Count.ROWS_BUILT: built.rows,
            Count.BUILDS_LOST: built.lost,
            Count.BUILDS_UNREADABLE: built.unreadable,
            Count.BUILDS_FAILED: built.failed,
            Count.SEGMENTS_COMPACTED: compacted.segments,
            Count.BYTES_COMPACTED: compacted.size,
            Count.COMPACTIONS_LOST: compacted.lost,
            Count.COMPACTIONS_UNREADABLE: compacted.unreadable,
            Count.COMPACTIONS_FAILED: compacted.failed,
            Count.RECORDS_BEFORE: compacted.records_read,
            Count.RECORDS_AFTER: compacted.records_kept,
        }

    async def _plan_compaction(self) -> None:
        """Look at the topics whose cleanup policy has it."""
        if not self._broker_config.is_whole:
            log.warning("nothing is compacted", reason=_NOT_WHOLE)
            return
        compacted = [
            Partition(topic_id, index)
            for topic_id, policy in self._policies.all()
            if policy.compact
            for index in range(policy.partition_count)
        ]
        await self._compactor.plan(compacted)

    async def _retain(self) -> None:
        await self._refresh()
        if not self._broker_config.is_whole:
            log.warning("nothing expires", reason=_NOT_WHOLE)
            return
        done = await self._retention.run()
        self._counts.add(Count.PARTITIONS_EXPIRED, done.partitions)
        self._counts.add(Count.ROWS_REMOVED, done.rows)
        self._counts.add(Count.PRODUCERS_EXPIRED, done.producers)
        if done.partitions or done.rows or done.producers:
            log.info(
                "expired", partitions=done.partitions, rows=done.rows, producers=done.producers
            )

    async def _sweep(self) -> None:
        swept = await self._sweeper.run()
        self._counts.add(Count.UPLOADS_ABANDONED, swept.abandoned)
        self._counts.add(Count.OBJECTS_UNNEEDED, swept.unneeded)
        self._counts.add(Count.OBJECTS_DELETED, swept.deleted)
        self._counts.add(Count.DELETES_REFUSED, swept.refused)
        if swept.abandoned or swept.unneeded or swept.deleted:
            log.info(
                "swept",
                abandoned=swept.abandoned,
                unneeded=swept.unneeded,
                deleted=swept.deleted,
            )
