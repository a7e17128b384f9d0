"""Offsets that members of a group in memory commit, and may read: its machine says who."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from kio.schema.errors import ErrorCode

from broker.groups.group_metrics import GroupMetrics
from broker.groups.group_runner import Answered, GroupRunner
from broker.groups.group_timer import loop_ms
from broker.groups.group_transactions import Committing, TransactionalCommits
from broker.groups.group_writes import GroupFenced, GroupWrites, failure_of, pass_on
from broker.refusals import Refusal, coordinator_refusal
from protocol.ids import Partition
from storage.errors import MetadataUnavailable, NothingWritten
from storage.metadata.groups import CommittedOffset
from storage.metadata.transactions import TransactionOffsets, TransactionOffsetsOutcome, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Committer:
    """Who commits offsets.

    Attributes:
        generation_id: or member epoch; -1 with an empty member_id for one who is no member.
    """

    member_id: str
    instance_id: str | None
    generation_id: int


class GroupCommits:
    """Does what a request for a group in memory asks for, and sees to its answer."""

    def __init__(
        self, writes: GroupWrites, in_transactions: TransactionalCommits, metrics: GroupMetrics
    ) -> None:
        self._writes = writes
        self._in_transactions = in_transactions
        self._metrics = metrics

    def commit(
        self,
        runner: GroupRunner,
        answer: Answered,
        committer: Committer,
        offsets: Mapping[Partition, CommittedOffset],
    ) -> None:
        """Commit offsets; answered with the partitions that turned out not to exist."""
        code = runner.machine.check_commit(
            member_id=committer.member_id,
            instance_id=committer.instance_id,
            generation_id=committer.generation_id,
            partitions=offsets.keys(),
            now_ms=loop_ms(),
        )
        if code is not ErrorCode.none:
            answer.set_exception(Refusal(code))
        elif not offsets:
            answer.set_result(frozenset())
        else:
            self._metrics.offset_commits.inc()
            written = self._writes.commit(runner.group_id, runner.owner_epoch, offsets)
            runner.follow(written)
            written.add_done_callback(partial(pass_on, answer))

    def commit_in_transaction(
        self,
        runner: GroupRunner,
        answer: Answered,
        committer: Committer,
        offsets: TransactionOffsets,
    ) -> None:
        """Have offsets committed once a transaction is; answered with what became of that."""
        code = runner.machine.check_transactional_commit(
            member_id=committer.member_id,
            instance_id=committer.instance_id,
            generation_id=committer.generation_id,
            partitions=offsets.offsets.keys(),
        )
        if code is not ErrorCode.none:
            answer.set_exception(Refusal(code))
        elif not offsets.offsets:
            answer.set_result(TransactionOffsetsOutcome(verdict=Verdict.DONE))
        else:
            self._metrics.offset_commits.inc()
            self._in_transactions.write(offsets).add_done_callback(
                partial(_committed, runner, answer)
            )

    async def judge(self, to_nobody: TransactionOffsets) -> TransactionOffsetsOutcome:
        """Tell what is wrong with a commit but for its group; see TransactionalCommits.judge."""
        return await self._in_transactions.judge(to_nobody)

    def check_fetch(
        self, runner: GroupRunner, answer: Answered, member_id: str | None, member_epoch: int
    ) -> None:
        """Answered with True once the member may read what was committed before it asked."""
        code = runner.machine.check_fetch(
            member_id=member_id, member_epoch=member_epoch, is_saving=runner.is_saving
        )
        if code is not ErrorCode.none:
            answer.set_exception(Refusal(code))
            return
        before: list[asyncio.Future[Any]] = []
        before += self._in_transactions.under_way(runner.group_id, runner.owner_epoch)
        if runner.writing is not None:
            before.append(runner.writing)

        def settled(_: object = None) -> None:
            """Answer; after a write that certainly did not happen, too: the group goes on then."""
            fine = NothingWritten | None
            ended = all(one.done() and isinstance(failure_of(one), fine) for one in before)
            if ended and not answer.done():
                answer.set_result(True)

        for write in before:
            write.add_done_callback(settled)
        settled()

    async def settled(self, group_id: str) -> None:
        """Wait for what is under way in transactions, where the group is not ours any more, too.

        Raises:
            MetadataUnavailable: nobody knows what became of one of them.
        """
        await self._in_transactions.settled(group_id)


def _committed(runner: GroupRunner, answer: Answered, writing: Committing) -> None:
    """See to the end of a commit in a transaction."""
    failure = failure_of(writing)
    if runner.closed:
        return  # whoever asked was told to ask again, which does no harm
    if failure is None and writing.result().verdict is Verdict.GROUP_FENCED:
        failure = GroupFenced(runner.group_id)
    if failure is None:
        if not answer.done():
            answer.set_result(writing.result())
        return
    if isinstance(failure, NothingWritten):  # nor is anything still to come, so the group goes on
        if not answer.done():
            answer.set_exception(coordinator_refusal(failure))
        return
    known = isinstance(failure, GroupFenced | MetadataUnavailable | asyncio.CancelledError)
    if not known and not answer.done():
        answer.set_exception(failure)
    runner.give_up(failure)
