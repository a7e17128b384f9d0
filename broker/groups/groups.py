"""The groups that this broker coordinates, as handlers see them (D9).

    groups.py          what can be asked of a group
    group_table.py     which groups are in memory, and how they get there (group_loads.py,
                       group_waiters.py)
    group_retake.py    groups that were lost are taken over again
    group_runner.py    one group: machine, who waits for an answer; group_timer.py: what is due
    group_commits.py   offsets: who may commit them, and when they may be read
    group_writes.py    what goes to Postgres; offsets of transactions by group_transactions.py
    group_deletions.py what is removed while nobody else can get at the group
    deletes_in_turn.py groups that are deleted, some at a time
    group_upkeep.py    takeover, changed topics, expiry
    group_setup.py     makes and wires all of these
    group_requests.py  what handlers share; offset_requests.py: those of offsets; group_records.py:
                       from a machine's snapshot to what the store keeps

Every failure is a Refusal with Kafka's code. If Postgres does not answer, that is one that makes
clients try again; nothing that a client was told is ever taken back.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kio.schema.errors import ErrorCode

from broker.groups.group_catalog import GroupCatalog
from broker.groups.group_commits import Committer, GroupCommits
from broker.groups.group_deletions import GroupDeletions
from broker.groups.group_runner import Answered, GroupRunner
from broker.groups.group_table import GroupTable
from broker.groups.group_transactions import NOBODY
from broker.refusals import coordinating, coordinator_refusal
from coordinator.events import ClassicEvent, ConsumerEvent, Token
from coordinator.group import Group
from protocol.ids import Partition
from storage.errors import MetadataUnavailable
from storage.metadata.groups import CommittedOffset, CommittedOffsets, GroupListing, GroupStore
from storage.metadata.transactions import (
    Producer,
    TransactionOffsets,
    TransactionOffsetsOutcome,
    Verdict,
)

MakeEvent = Callable[[Token], ClassicEvent | ConsumerEvent]


class Groups:
    """What can be asked of groups.

    Args:
        coordinates: whether this broker is the coordinator of a group id.

    Attributes:
        catalog: the topics as consumer groups see them.
    """

    def __init__(
        self,
        *,
        store: GroupStore,
        table: GroupTable,
        commits: GroupCommits,
        catalog: GroupCatalog,
        coordinates: Callable[[str], bool],
    ) -> None:
        self._store = store
        self._table = table
        self._deletions = GroupDeletions(store, table)
        self._commits = commits
        self._coordinates = coordinates
        self.catalog = catalog

    def handle(
        self,
        group_id: str,
        make_event: MakeEvent,
        *,
        create: bool = False,
        overtakes: bool = False,
    ) -> Awaitable[Any]:
        """Hand the group an event; the answer is the machine's, or None without such a group.

        An event that changes nothing may overtake a delete of offsets, for which clients that send
        it may not have the time.
        """

        def work(runner: GroupRunner, answer: Answered) -> None:
            runner.handle(make_event(answer))

        return self._ask(group_id, work, without=None, create=create, overtakes=overtakes)

    def commit(
        self, group_id: str, committer: Committer, offsets: Mapping[Partition, CommittedOffset]
    ) -> Awaitable[frozenset[Partition] | None]:
        """Commit offsets; the answer holds those partitions that turned out not to exist.

        Who is no member makes the group if need be; for a member it is None without such a group.
        """

        def work(runner: GroupRunner, answer: Answered) -> None:
            self._commits.commit(runner, answer, committer, offsets)

        return self._ask(group_id, work, without=None, create=committer.generation_id < 0)

    def commit_in_transaction(
        self,
        group_id: str,
        committer: Committer,
        producer: Producer,
        offsets: Mapping[Partition, CommittedOffset],
        *,
        joins: bool,
    ) -> Awaitable[TransactionOffsetsOutcome | None]:
        """Have offsets committed when the producer's transaction is; TransactionOffsets tells more.

        Who is no member makes the group if need be, and if its producer may commit; for a member it
        is None without such a group.
        """
        to_nobody = TransactionOffsets(
            producer=producer, group_id=group_id, owner_epoch=NOBODY, joins=joins, offsets=offsets
        )

        def work(runner: GroupRunner, answer: Answered) -> None:
            in_transaction = replace(to_nobody, owner_epoch=runner.owner_epoch)
            self._commits.commit_in_transaction(runner, answer, committer, in_transaction)

        answer = self._ask(group_id, work, without=None)
        if committer.generation_id >= 0:
            return answer
        return self._or_make(answer, to_nobody, work)

    async def _or_make(
        self,
        found: Awaitable[TransactionOffsetsOutcome | None],
        to_nobody: TransactionOffsets,
        work: Callable[[GroupRunner, Answered], None],
    ) -> TransactionOffsetsOutcome | None:
        """Return the answer of a group; where there is none, make it if nothing else is wrong."""
        outcome = await found
        if outcome is not None:
            return outcome
        with coordinating():
            judged = await self._commits.judge(to_nobody)
        if judged.verdict is not Verdict.GROUP_FENCED:
            return judged
        made: TransactionOffsetsOutcome | None = await self._ask(
            to_nobody.group_id, work, without=None, create=True
        )
        return made

    def may_fetch(
        self, group_id: str, *, member_id: str | None, member_epoch: int
    ) -> Awaitable[bool]:
        """Wait until `committed` tells what was committed before; False without such a group."""

        def work(runner: GroupRunner, answer: Answered) -> None:
            self._commits.check_fetch(runner, answer, member_id, member_epoch)

        return self._ask(group_id, work, without=False)

    async def committed(
        self, group_id: str, partitions: Sequence[Partition] | None
    ) -> CommittedOffsets:
        """Return the offsets that the group committed of these partitions, or of all (None)."""
        with coordinating():
            await self._commits.settled(group_id)
            return await self._store.committed_offsets(group_id, partitions)

    def find(self, group_id: str) -> Awaitable[GroupRunner | None]:
        """Return the group, to look at; None if there is no such."""
        return self._ask(group_id, lambda runner, answer: answer.set_result(runner), without=None)

    async def list(self) -> AsyncIterator[GroupListing]:
        """Return the groups that this broker coordinates."""
        try:
            async for one in self._store.list_groups():
                if self._coordinates(one.group_id):
                    yield self._now(one)
        except MetadataUnavailable as unavailable:
            raise coordinator_refusal(unavailable) from unavailable

    def delete(self, group_id: str) -> Awaitable[ErrorCode]:
        """Delete a group without members, and its offsets; return what became of that."""

        def work(runner: GroupRunner, answer: Answered) -> None:
            if runner.machine.is_empty:
                self._deletions.delete(runner, answer)
            else:
                answer.set_result(ErrorCode.non_empty_group)

        return self._ask(group_id, work, without=ErrorCode.group_id_not_found)

    def delete_offsets(
        self, group_id: str, choose: Callable[[Group], Sequence[Partition]]
    ) -> Awaitable[bool]:
        """Forget those committed offsets that `choose` returns; False without such a group.

        It judges by the group as it is when all that was asked for before is done.
        """

        def work(runner: GroupRunner, answer: Answered) -> None:
            if partitions := choose(runner.machine):
                self._deletions.delete_offsets(runner, partitions, answer)
            else:
                answer.set_result(True)

        return self._ask(group_id, work, without=False)

    def _ask(
        self,
        group_id: str,
        work: Callable[[GroupRunner, Answered], None],
        *,
        without: object,
        create: bool = False,
        overtakes: bool = False,
    ) -> Answered:
        """Have something done with a group; without such a group the answer is `without`."""

        def begin(runner: GroupRunner | None, answer: Answered) -> None:
            if runner is None:
                answer.set_result(without)
            else:
                work(runner, answer)

        return self._table.call(group_id, begin, create=create, overtakes=overtakes)

    def _now(self, listing: GroupListing) -> GroupListing:
        """Return a group as it is in memory: not every change of its state is saved."""
        runner = self._table.get(listing.group_id)
        if runner is None:
            return listing
        machine = runner.machine
        return replace(
            listing,
            group_type=machine.group_type.value,
            state=machine.state.value,
            protocol_type=machine.protocol_type,
            member_count=machine.member_count,
        )
