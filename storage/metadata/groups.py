"""The metadata port's consumer groups and committed offsets (D9).

Contract, checked for Postgres and for the in-memory fake by tests/contracts/test_groups.py:
- A group has one owner at a time: the last one who took it. `take_groups` gives it a new owner
  epoch, greater than all before, and every write names the epoch it was taken with. A write under
  an older epoch, or to a group that is gone, changes nothing and says so: the group is among the
  answer's `fenced`. This is decided under the lock of the group's row, in the transaction of the
  write, so an overtaken or repeated write of an old owner can never land later.
- After MetadataUnavailable nobody knows whether a write took effect, or still will: the caller
  takes the group again before it writes again. Then it has either happened, or never will.
- A committed offset is of (group, topic id, partition); deleting the topic deletes it.
"""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from protocol.ids import Partition


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRecord:
    """A group as it is kept; the fields are those of coordinator.snapshots.GroupSnapshot.

    Attributes:
        group_type: "Classic" or "Consumer".
        state: Kafka's name of the state when it was written.
    """

    group_id: str
    group_type: str
    state: str
    protocol_type: str
    generation_id: int
    member_count: int
    document: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenGroup:
    """A group that is now ours.

    Attributes:
        owner_epoch: what every write has to name.
        record: None if no generation of it was ever saved (it has offsets only, or nothing yet).
    """

    group_id: str
    owner_epoch: int
    record: GroupRecord | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListing:
    """A group as ListGroups shows it. A group without a record is Classic, Empty, without type."""

    group_id: str
    group_type: str
    state: str
    protocol_type: str
    member_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """Where a group goes on reading a partition.

    Attributes:
        offset: of the next record to read.
        leader_epoch: of the last record read; -1 if unknown.
        metadata: the committer's note.
    """

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffsets:
    """What a group has committed, at one moment.

    Attributes:
        unstable: partitions for which an open transaction has an offset, committed when it ends
            (KIP-447); they may be among `offsets`, or not.
    """

    offsets: Mapping[Partition, CommittedOffset]
    unstable: frozenset[Partition]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupWrite:
    """What changes in one group: its record, or its offsets, or both.

    Attributes:
        record: None to leave it.
        offsets: to commit, by partition.
    """

    group_id: str
    owner_epoch: int
    record: GroupRecord | None = None
    offsets: Mapping[Partition, CommittedOffset]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOutcome:
    """What became of `write_groups`.

    Attributes:
        fenced: groups of which nothing was written: somebody else took them, or they are gone.
        unknown: partitions that do not exist (any more): their offsets were not written.
    """

    fenced: frozenset[str]
    unknown: frozenset[Partition]


class GroupStore(Protocol):
    """Part of MetadataStore; see the module's docstring for what every implementation promises.

    Every call raises MetadataUnavailable when Postgres gives no answer in time.
    """

    async def take_groups(self, group_ids: Sequence[str], *, create: bool) -> list[TakenGroup]:
        """Become the owner of groups, in one statement; those that do not exist are left out.

        Args:
            group_ids: no group twice.
            create: make those that do not exist; all of them count as written.
        """

    async def write_groups(self, writes: Sequence[GroupWrite]) -> WriteOutcome:
        """Save records and commit offsets of several groups: one statement, one transaction.

        Calls run one after the other in the order in which they were made.

        Args:
            writes: no group twice.
        """

    async def committed_offsets(
        self, group_id: str, partitions: Sequence[Partition] | None
    ) -> CommittedOffsets:
        """Return what the group committed of these partitions, or of all (None)."""

    def list_groups(self) -> AsyncIterator[GroupListing]:
        """Return all groups of the cluster, by their ids.

        There may be many, so they are read some at a time, and others have their turns between.
        One that comes or goes meanwhile may be among them or not.
        """

    async def has_group(self, group_id: str) -> bool:
        """Tell whether there is such a group, whoever owns it."""

    async def delete_groups(self, owned: Mapping[str, int]) -> dict[str, bool]:
        """Remove groups and their offsets, of open transactions, too, in one statement.

        Args:
            owned: their owner epochs.

        Returns:
            whether a group is gone, or this was fenced. The first one always has an answer; others
            are left out if somebody holds them, or much is gone already: they are to be asked for
            again.

        Raises:
            NothingWritten: the first one was held for too long.
        """

    async def delete_offsets(
        self, group_id: str, owner_epoch: int, partitions: Sequence[Partition]
    ) -> bool:
        """Forget committed offsets; False if fenced."""

    async def expire_offsets(self, retention_ms: int) -> int:
        """Forget what nobody wants any more; return how many offsets and groups went.

        By the database's clock: offsets that were committed longer ago than `retention_ms`, of
        groups that have had no member for as long (or have no record); and groups that are Empty,
        or without a record, and have neither offsets nor been written for as long.
        """

    async def expire_left_topics(
        self, group_id: str, owner_epoch: int, subscribed: Collection[str], retention_ms: int
    ) -> int:
        """Forget what a group has of topics that are not `subscribed` (KIP-211); return how much.

        By the database's clock: offsets that were committed longer ago than `retention_ms`, but for
        those for which an open transaction has a newer one. 0 if fenced.
        """
