"""One group in memory: feeds its machine and runs the effects (D9).

Events are handled at once, also while a save is under way; answers wait for the saves before them,
so nobody is told of what another broker would not know after a takeover.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog
from kio.schema.errors import ErrorCode

from broker.groups.group_records import record_of, snapshot_of
from broker.groups.group_timer import GroupTimer, loop_ms
from broker.groups.group_transactions import Committing, TransactionalCommits
from broker.groups.group_writes import (
    GroupFenced,
    GroupWrites,
    Written,
    failure_of,
    pass_on,
    resolve_after,
)
from broker.http.metrics import GroupMetrics
from broker.refusals import Refusal
from coordinator.config import GroupConfig
from coordinator.effects import ArmTimer, Effect, Reply, Save
from coordinator.events import ClassicEvent, ConsumerEvent, TimerFired
from coordinator.group import Group
from coordinator.snapshots import GroupSnapshot
from protocol.ids import Partition
from storage.errors import MetadataUnavailable, NothingWritten
from storage.metadata.groups import CommittedOffset, TakenGroup
from storage.metadata.transactions import TransactionOffsets, TransactionOffsetsOutcome, Verdict

log = structlog.get_logger()

Answered = asyncio.Future[Any]
"""Where the answer to a request goes; the token of the event that it became."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Committer:
    """Who commits offsets.

    Attributes:
        generation_id: or member epoch; -1 with an empty member_id for one who is no member.
    """

    member_id: str
    instance_id: str | None
    generation_id: int


class GroupRunner:
    """A group that this broker coordinates, from when it is taken until it is lost.

    Args:
        taken: what the store has of it.
        lost: told, with what to answer those who wait, when the group must be taken anew.

    Attributes:
        machine: its state.
        used_ms: when it was last asked for something.
    """

    def __init__(
        self,
        taken: TakenGroup,
        config: GroupConfig,
        *,
        writes: GroupWrites,
        commits: TransactionalCommits,
        metrics: GroupMetrics,
        lost: Callable[["GroupRunner", ErrorCode], None],
    ) -> None:
        self.group_id = taken.group_id
        self.owner_epoch = taken.owner_epoch
        self.used_ms = loop_ms()
        self.closed = False
        self._writes = writes
        self._commits = commits
        self._metrics = metrics
        self._lost = lost
        self._owed: set[Answered] = set()
        self._asking: Answered | None = None
        self._saving: Written | None = None
        self._writing: Written | None = None
        self._timer = GroupTimer(self._be_on_time)
        self._generation_id = 0
        if taken.record is None:
            self.machine = Group(taken.group_id, config)
        else:
            self._generation_id = taken.record.generation_id
            snapshot = snapshot_of(taken.record)
            self.machine = Group.restore(snapshot, config, now_ms=self.used_ms)

    @property
    def idle(self) -> bool:
        """Whether nothing is lost if it leaves memory."""
        busy = self._owed or self._saving or self._writing
        return self.machine.is_empty and not busy

    def start(self) -> None:
        """Begin; called once."""
        with self.whole():
            self._run(self.machine.start(now_ms=loop_ms()))

    def disown(self, answer: Answered) -> None:
        """Leave this answer to somebody else."""
        self._owed.discard(answer)

    def do(self, work: Callable[["GroupRunner", Answered], None], answer: Answered) -> None:
        """Do something that a request asks for."""
        self.used_ms = loop_ms()
        if self.closed:
            answer.set_exception(Refusal(ErrorCode.not_coordinator))
            return
        self._owed.add(answer)  # answered in any case: if need be, when the group is lost
        answer.add_done_callback(self._owed.discard)
        self._asking = answer
        with self.whole():
            work(self, answer)
        self._asking = None

    def handle(self, event: ClassicEvent | ConsumerEvent) -> None:
        """Change the group by an event."""
        if self.closed:
            return
        with self.whole():
            self._run(self.machine.handle(event, now_ms=loop_ms()))

    def commit(
        self,
        answer: Answered,
        committer: Committer,
        offsets: Mapping[Partition, CommittedOffset],
    ) -> None:
        """Commit offsets; answered with the partitions that turned out not to exist."""
        code = self.machine.check_commit(
            member_id=committer.member_id,
            instance_id=committer.instance_id,
            generation_id=committer.generation_id,
            now_ms=loop_ms(),
        )
        if code is not ErrorCode.none:
            answer.set_exception(Refusal(code))
        elif not offsets:
            answer.set_result(frozenset())
        else:
            self._metrics.offset_commits.inc()
            written = self._writes.commit(self.group_id, self.owner_epoch, offsets)
            self._follow(written)
            written.add_done_callback(partial(pass_on, answer))

    def commit_in_transaction(
        self, answer: Answered, committer: Committer, offsets: TransactionOffsets
    ) -> None:
        """Have offsets committed once a transaction is; answered with what became of that."""
        code = self.machine.check_transactional_commit(
            member_id=committer.member_id,
            instance_id=committer.instance_id,
            generation_id=committer.generation_id,
        )
        if code is not ErrorCode.none:
            answer.set_exception(Refusal(code))
        elif not offsets.offsets:
            answer.set_result(TransactionOffsetsOutcome(verdict=Verdict.DONE))
        else:
            self._metrics.offset_commits.inc()
            self._commits.write(offsets).add_done_callback(partial(self._committed, answer))

    def check_fetch(self, answer: Answered, member_id: str | None, member_epoch: int) -> None:
        """Answered with True once the member may read what was committed before it asked."""
        code = self.machine.check_fetch(
            member_id=member_id, member_epoch=member_epoch, now_ms=loop_ms()
        )
        if code is not ErrorCode.none:
            answer.set_exception(Refusal(code))
            return
        before: list[asyncio.Future[Any]] = []
        before += self._commits.under_way(self.group_id, self.owner_epoch)
        if self._writing is not None:
            before.append(self._writing)

        def settled(_: object = None) -> None:
            """Answer; after a write that certainly did not happen, too: the group goes on then."""
            fine = NothingWritten | None
            ended = all(one.done() and isinstance(failure_of(one), fine) for one in before)
            if ended and not answer.done():
                answer.set_result(True)

        for write in before:
            write.add_done_callback(settled)
        settled()

    def hold_time(self) -> None:
        """Let nothing be due until `release_time`."""
        self._timer.hold()

    def release_time(self) -> None:
        """Let be due what has become so meanwhile."""
        if not self.closed:
            self._timer.release()

    def close(self, code: ErrorCode) -> None:
        """End: answer everybody who waits with `code`."""
        self.closed = True
        self._timer.close()
        for answer in list(self._owed):
            if not answer.done():
                answer.set_exception(Refusal(code))

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Give the group up if its machine raises: it may be half changed.

        Who asked for what it cannot do is told so; the others shall go on with the group anew.
        """
        try:
            yield
        except BaseException:
            if self._asking is not None and not self._asking.done():
                self._asking.set_exception(Refusal(ErrorCode.unknown_server_error))
                self._asking.exception()  # the one who waits for it may be the one who is raised to
            self._lost(self, ErrorCode.coordinator_not_available)
            raise

    # --- effects

    def _run(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Save():
                    self._save(effect.group)
                case Reply():
                    self._reply(effect)
                case ArmTimer():
                    self._timer.arm(effect.deadline_ms)

    def _save(self, snapshot: GroupSnapshot) -> None:
        if snapshot.generation_id != self._generation_id:
            self._generation_id = snapshot.generation_id
            self._metrics.rebalances.inc()
        make_record = partial(record_of, snapshot)
        self._saving = self._writes.save(self.group_id, self.owner_epoch, make_record)
        self._follow(self._saving)

    def _reply(self, reply: Reply) -> None:
        token = reply.token
        assert isinstance(token, asyncio.Future)
        if self._saving is not None:
            self._saving.add_done_callback(partial(resolve_after, token, reply.answer))
        elif not token.done():
            token.set_result(reply.answer)

    def _be_on_time(self, deadline_ms: int) -> None:
        with self.whole():  # a timer that fires early, by the loop's resolution, is on time
            self._run(self.machine.handle(TimerFired(), now_ms=max(loop_ms(), deadline_ms)))

    # --- writes

    def _follow(self, written: Written) -> None:
        """See to the end of a write before anybody else hears of it."""
        if written is not self._writing:
            self._writing = written
            written.add_done_callback(self._written)

    def _written(self, written: Written) -> None:
        failure = failure_of(written)
        if self.closed:
            return
        if failure is not None:
            self._give_up(failure)
            return
        if written is self._saving:
            self._saving = None
        if written is self._writing:
            self._writing = None

    def _committed(self, answer: Answered, writing: Committing) -> None:
        """See to the end of a commit in a transaction."""
        failure = failure_of(writing)
        if self.closed:
            return  # whoever asked was told to ask again, which does no harm
        if failure is None and writing.result().verdict is Verdict.GROUP_FENCED:
            failure = GroupFenced(self.group_id)
        if failure is None:
            if not answer.done():
                answer.set_result(writing.result())
            return
        if isinstance(failure, NothingWritten):  # so the group is as it was
            if not answer.done():
                answer.set_exception(Refusal(ErrorCode.coordinator_not_available, str(failure)))
            return
        known = isinstance(failure, GroupFenced | MetadataUnavailable | asyncio.CancelledError)
        if not known and not answer.done():
            answer.set_exception(failure)
        self._give_up(failure)

    def _give_up(self, failure: BaseException) -> None:
        """Leave the group, for a write that did not happen or may not have."""
        fenced = isinstance(failure, GroupFenced)
        if fenced:
            self._metrics.fenced_groups.inc()
        log.warning("group lost", group_id=self.group_id, fenced=fenced, reason=str(failure))
        code = ErrorCode.not_coordinator if fenced else ErrorCode.coordinator_not_available
        self._lost(self, code)
