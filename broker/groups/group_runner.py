"""One group in memory: feeds its machine and runs the effects (D9).

Events are handled at once, also while a save is under way; answers wait for the saves before them,
so nobody is told of what another broker would not know after a takeover.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import structlog
from kio.schema.errors import ErrorCode

from broker.groups.group_metrics import GroupMetrics
from broker.groups.group_records import record_of, snapshot_of
from broker.groups.group_timer import GroupTimer, loop_ms
from broker.groups.group_writes import (
    GroupFenced,
    GroupWrites,
    Written,
    failure_of,
    resolve_after,
)
from broker.refusals import Refusal
from coordinator.config import GroupConfig
from coordinator.effects import ArmTimer, Effect, Expired, Reply, Save
from coordinator.events import ClassicEvent, ConsumerEvent, TimerFired
from coordinator.group import Group
from coordinator.snapshots import GroupSnapshot
from storage.metadata.groups import TakenGroup

log = structlog.get_logger()

Answered = asyncio.Future[Any]
"""Where the answer to a request goes; the token of the event that it became."""


class GroupRunner:
    """A group that this broker coordinates, from when it is taken until it is lost.

    Args:
        taken: what the store has of it.
        lost: told, with what to answer those who wait, when the group must be taken anew.

    Attributes:
        machine: its state.
        used_ms: when it was last asked for something.
        writing: what of the group is on its way to Postgres; None if nothing is.
    """

    def __init__(
        self,
        taken: TakenGroup,
        config: GroupConfig,
        *,
        writes: GroupWrites,
        metrics: GroupMetrics,
        lost: Callable[["GroupRunner", ErrorCode], None],
    ) -> None:
        self.group_id = taken.group_id
        self.owner_epoch = taken.owner_epoch
        self.used_ms = loop_ms()
        self.closed = False
        self._writes = writes
        self._metrics = metrics
        self._lost = lost
        self._owed: set[Answered] = set()
        self._asking: Answered | None = None
        self._saving: Written | None = None
        self.writing: Written | None = None
        self._timer = GroupTimer(self._expire)
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
        busy = self._owed or self._saving or self.writing
        return self.machine.is_empty and not busy

    @property
    def is_saving(self) -> bool:
        """Whether a change of the group is not durable yet, and nobody has been told of it."""
        return self._saving is not None

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

    def follow(self, written: Written) -> None:
        """See to the end of a write before anybody else hears of it."""
        if written is not self.writing:
            self.writing = written
            written.add_done_callback(self._written)

    def give_up(self, failure: BaseException) -> None:
        """Leave the group, for a write that did not happen or may not have."""
        fenced = isinstance(failure, GroupFenced)
        if fenced:
            self._metrics.fenced_groups.inc()
        log.warning("group lost", group_id=self.group_id, fenced=fenced, reason=str(failure))
        code = ErrorCode.not_coordinator if fenced else ErrorCode.coordinator_not_available
        self._lost(self, code)

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
                case Expired():
                    log.info(
                        "member removed",
                        group_id=self.group_id,
                        member_id=effect.member_id,
                        reason=effect.reason,
                    )

    def _save(self, snapshot: GroupSnapshot) -> None:
        if snapshot.generation_id != self._generation_id:
            self._generation_id = snapshot.generation_id
            self._metrics.rebalances.inc()
        make_record = partial(record_of, snapshot)
        self._saving = self._writes.save(self.group_id, self.owner_epoch, make_record)
        self.follow(self._saving)

    def _reply(self, reply: Reply) -> None:
        token = reply.token
        assert isinstance(token, asyncio.Future)
        if self._saving is not None:
            self._saving.add_done_callback(partial(resolve_after, token, reply.answer))
        elif not token.done():
            token.set_result(reply.answer)

    def _expire(self, deadline_ms: int) -> None:
        with self.whole():  # a timer that fires early, by the loop's resolution, is on time
            self._run(self.machine.handle(TimerFired(), now_ms=max(loop_ms(), deadline_ms)))

    def _written(self, written: Written) -> None:
        failure = failure_of(written)
        if self.closed:
            return
        if failure is not None:
            self.give_up(failure)
            return
        if written is self._saving:
            self._saving = None
        if written is self.writing:
            self.writing = None
