"""What a recovery has found, and what it could not."""

from dataclasses import dataclass, field
from typing import Final

from storage.configs.config_types import LONG_MAX
from storage.upkeep.policies import UNLIMITED

KEEPING: Final = {
    "log.retention.ms": str(UNLIMITED),
    "log.retention.bytes": str(UNLIMITED),
    "log.cleaner.min.cleanable.ratio": "1.0",
    "log.cleaner.max.compaction.lag.ms": str(LONG_MAX),
}
"""Of the whole cluster: topics that follow these lose no record. What was set is not known, and the
defaults would remove, within seconds, what was to be kept for ever."""

FOREVER_NOTE: Final = (
    "retention.ms=-1, until you set its configs: nothing but wal objects tells of it"
)
NOT_RECOVERED: Final = (
    "committed offsets of groups: consumers begin by their auto.offset.reset",
    "transactional ids: producers have to be started again (InitProducerId)",
    "how transactions ended in a broker's last seconds, if it was killed: they are aborted",
    "that one was open where built segments end, if it wrote there long before: it is committed",
    "offsets of what such a broker wrote then, if it is not built: these records may have moved",
    "what was set of the whole cluster, of brokers, groups and client metrics",
    "users (SCRAM), ACLs and quotas",
    "topics that no object tells of",
    (
        "topic configs altered, and empty partitions added, since the last built segment: start"
        " brokers with STREAMHOUSE_UPKEEP__ENABLED=false until you have set what keeps more"
    ),
    "log starts: what DeleteRecords or retention took away is there again, if its object still is",
    "what compaction removed of a new leader's first records: it may come back at the end",
    "usage counted for `streamctl cost`",
    "snapshots, and what Spark's direct writers committed last: a batch under way may come again",
    "which uploads of Spark were committed: if not built, records may come twice or uncommitted",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicReport:
    """One topic.

    Attributes:
        records: offsets between log starts and ends.
        lost: ranges of offsets that nobody has any more: (partition, first, last).
        moved: records at the ends of their partitions, because their offsets are not known.
        unfinished: transactions that were aborted, because their end is not known.
    """

    name: str
    partitions: int
    records: int
    built_records: int
    lost: list[tuple[int, int, int]]
    moved: int
    unfinished: int
    note: str = ""


@dataclass(slots=True)
class RecoveryReport:
    """All of it.

    Attributes:
        keeping: those of KEEPING that the whole cluster has now, until somebody sets others.
        segments, uploads: objects that were read.
        unneeded: objects that are part of no log; the sweeper takes them away in a while.
        unreadable: objects, or parts of them, that tell nothing, and why.
        left_out: topics that were deleted, or have no name, and why that is believed; objects with
            a batch that found no room, and cannot come later: its producer went on; and segments
            with offsets that nobody else has, which contradict those that are in the log.
    """

    cluster_id: str = ""
    topics: list[TopicReport] = field(default_factory=list)
    segments: int = 0
    uploads: int = 0
    repeated: int = 0
    unneeded: int = 0
    unreadable: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    next_producer_id: int = 0
    keeping: dict[str, str] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """Whether nothing was lost, left out or moved, or may have been.

        What is unfinished had not ended, most often: each cluster that was killed has some of it.
        """
        is_changed = any(one.lost or one.moved for one in self.topics)
        return not (self.unreadable or self.left_out or is_changed)
