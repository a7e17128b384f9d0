"""Which groups are in memory; requests for a group that is being loaded wait, and keep their order.

A group is loaded by the first request for it, or before, when it becomes ours (group_upkeep.py). It
leaves when it is no longer ours, when a write of it failed (group_writes.py), or when nobody needs
it. Those who wait are then told with a code that makes clients look for the coordinator again. If
it is still ours, it is taken over again soon (group_retake.py).
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from random import sample
from typing import Any, Final

import structlog
from kio.schema.errors import ErrorCode

from broker.groups.group_catalog import GroupCatalog
from broker.groups.group_loads import GroupLoads
from broker.groups.group_metrics import GroupMetrics
from broker.groups.group_retake import GroupRetake
from broker.groups.group_runner import Answered, GroupRunner
from broker.groups.group_waiters import Pause, Waiter, Work
from broker.groups.group_writes import GroupWrites
from broker.refusals import Refusal, coordinator_refusal
from coordinator.config import GroupConfig
from coordinator.events import TopicsChanged
from storage.errors import MetadataUnavailable, RowsHeld
from storage.metadata.groups import GroupStore, TakenGroup

MAX_GROUP_ID_LENGTH: Final = 512
"""Characters; an id is part of keys in Postgres, which have a limit (Kafka's is 32,767 bytes)."""

CHARACTERS_PER_TURN: Final = 32_768
"""Of the documents of groups that begin before others have their turn: a few milliseconds."""

HELD_AT_MOST: Final = 1
"""Rows held by somebody, of those that are taken together; each is waited for (LOCK_TIMEOUT_S)."""

log = structlog.get_logger()


class GroupTable:
    """The groups in memory.

    Args:
        coordinates: whether this broker is the coordinator of a group id.
        config_of: returns the limits and times of a group id, as they are now.
        retake: told when groups are lost that are ours, and may have members.
    """

    def __init__(
        self,
        *,
        store: GroupStore,
        writes: GroupWrites,
        catalog: GroupCatalog,
        coordinates: Callable[[str], bool],
        config_of: Callable[[str], GroupConfig],
        retake: GroupRetake,
        metrics: GroupMetrics,
    ) -> None:
        self._store = store
        self._writes = writes
        self._catalog = catalog
        self._coordinates = coordinates
        self._config_of = config_of
        self._retake = retake
        self._metrics = metrics
        self._running: dict[str, GroupRunner] = {}
        self._paused: dict[str, Pause] = {}
        self._loads = GroupLoads(self._take_wanted)
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def running(self) -> list[GroupRunner]:
        """Return the groups in memory."""
        return list(self._running.values())

    def get(self, group_id: str) -> GroupRunner | None:
        return self._running.get(group_id)

    def reconfigure(self, group_ids: Iterable[str]) -> None:
        """Let those groups that are in memory follow their configs as they are now."""
        for group_id in group_ids:
            if (runner := self._running.get(group_id)) is not None:
                runner.machine.configure(self._config_of(group_id))

    def states(self) -> Mapping[str, int]:
        """Count the groups in memory by their state."""
        return Counter(runner.machine.state.value for runner in self._running.values())

    def call(
        self, group_id: str, work: Work, *, create: bool = False, overtakes: bool = False
    ) -> Answered:
        """Have something done with the group, after all that was asked of it before.

        What `overtakes` does not wait for who has a group in memory alone.

        The answer's exception is a Refusal if it is not ours, or cannot be loaded.
        """
        answer: Answered = asyncio.get_running_loop().create_future()
        if self._closed or not self._coordinates(group_id):
            answer.set_exception(Refusal(ErrorCode.not_coordinator))
        elif len(group_id) > MAX_GROUP_ID_LENGTH:
            answer.set_exception(Refusal(ErrorCode.invalid_group_id))
        else:
            self._admit(group_id, Waiter(work, answer, create, overtakes))
        return answer

    def take_over(self, group_ids: Iterable[str]) -> asyncio.Task[None]:
        """Load those groups that are ours and not in memory, with one statement.

        The task's exception is MetadataUnavailable if none could be, RowsHeld if some could not.
        What is missing afterwards, if few rows are held, is due again soon.
        """
        missing = [
            group_id
            for group_id in group_ids
            if self._coordinates(group_id)
            and group_id not in self._running
            and group_id not in self._paused
        ]
        for group_id in missing:
            self._paused[group_id] = Pause()
        return self._start(self._take(missing, create=False), missing)

    def membership_changed(self, *, missed: bool) -> None:
        """Drop the groups that may be another broker's now, or have been meanwhile.

        Args:
            missed: every group may have been.
        """
        for runner in self.running():
            if missed or not self._coordinates(runner.group_id):
                self.lose(runner, ErrorCode.not_coordinator)
        for group_id, pause in self._paused.items():
            if missed or not self._coordinates(group_id):
                pause.is_overtaken = True

    def run_alone(self, group_id: str, work: Coroutine[Any, Any, None], answer: Answered) -> None:
        """Run `work`, which sees to `answer`, while all others wait who ask for the group.

        If it raises, everybody is told. No time passes for members of a group in memory: what they
        have to say in time may be among what waits.
        """
        self._paused[group_id] = Pause([Waiter(_no_work, answer, create=False)])
        if (runner := self._running.get(group_id)) is not None:
            runner.hold_time()
        alone = self._alone(group_id, work, was_running=runner is not None)
        self._start(alone, [group_id])

    def lose(self, runner: GroupRunner, code: ErrorCode) -> None:
        """Drop a group from memory; those who wait are answered with `code`."""
        if self._running.get(runner.group_id) is runner:
            del self._running[runner.group_id]
            if not self._closed and not runner.idle and self._coordinates(runner.group_id):
                # whether it had members is for the store to say: a leave may be lost
                self._retake.soon()
            self._writes.discard(runner.group_id)
        runner.close(code)

    def close(self) -> None:
        """Drop all groups, and take no more; nothing needs saving."""
        self._closed = True
        for runner in self.running():
            self.lose(runner, ErrorCode.not_coordinator)
        self._retake.close()
        for group_id in self._loads.clear():
            self._settle(group_id, None)
        for task in self._tasks:
            task.cancel()

    def _admit(self, group_id: str, waiter: Waiter) -> None:
        pause, runner = self._paused.get(group_id), self._running.get(group_id)
        if pause is not None and not (waiter.overtakes and runner is not None):
            pause.waiters.append(waiter)
        elif runner is not None:
            runner.do(waiter.work, waiter.answer)
        else:
            self._load(group_id, [waiter])

    def _serve(self, group_id: str, pause: Pause) -> None:
        """Let all go on who waited; behind one that wants the group alone the others wait again."""
        try:
            for waiter in pause.waiters:
                self._admit(group_id, waiter)
        except BaseException:  # a bug with one of them: do() told whose; the others come again
            pause.refuse(Refusal(ErrorCode.coordinator_not_available))
            raise

    # --- loading

    def _load(self, group_id: str, waiters: list[Waiter]) -> None:
        self._paused[group_id] = Pause(waiters)
        self._loads.want(group_id, create=waiters[0].create)

    def _take_wanted(self, group_ids: Sequence[str], create: bool) -> asyncio.Task[None]:
        return self._start(self._take(group_ids, create=create), group_ids)

    async def _take(self, group_ids: Sequence[str], *, create: bool) -> None:
        try:
            await self._take_together(group_ids, create=create)
        except RowsHeld:
            if len(group_ids) == 1:
                raise
            await self._take_one_by_one(group_ids, create=create)

    async def _take_one_by_one(self, group_ids: Sequence[str], *, create: bool) -> None:
        """Let rows that are held cost only their groups; each time others are the last ones.

        Raises:
            RowsHeld: of so many that those who wait for other groups must not wait for the rest.
        """
        held_count = 0
        for group_id in sample(group_ids, len(group_ids)):
            pause = self._paused[group_id]
            try:
                await self._take_together([group_id], create=create)
            except RowsHeld as held:
                held_count += 1
                if held_count > HELD_AT_MOST:
                    raise
                self._give_up({group_id: pause}, self._why(held, [group_id]))

    async def _take_together(self, group_ids: Sequence[str], *, create: bool) -> None:
        for group_id in group_ids:
            self._paused[group_id].is_overtaken = not self._coordinates(group_id)
        ours = [group_id for group_id in group_ids if not self._paused[group_id].is_overtaken]
        answer = await self._store.take_groups(ours, create=create) if ours else ()
        taken = {one.group_id: one for one in answer}
        if any(one.record is not None for one in taken.values()):
            await self._catalog.refresh()
        loop, begun_characters = asyncio.get_running_loop(), 0
        for group_id in group_ids:  # each by itself, so that a bug with one costs only that one
            one = taken.get(group_id)
            loop.call_soon(self._settle, group_id, one)
            begun_characters += len(one.record.document) if one and one.record else 0
            if begun_characters >= CHARACTERS_PER_TURN:
                begun_characters = 0
                await asyncio.sleep(0)

    async def _alone(
        self, group_id: str, work: Coroutine[Any, Any, None], *, was_running: bool
    ) -> None:
        await work
        asyncio.get_running_loop().call_soon(self._resume, group_id, was_running)

    def _resume(self, group_id: str, was_running: bool) -> None:
        """Let those go on who waited for a group that is still in memory, or not any more."""
        pause = self._paused.pop(group_id)
        pause.waiters = [waiter for waiter in pause.waiters if not waiter.answer.done()]
        if self._closed or not self._coordinates(group_id):
            pause.refuse(Refusal(ErrorCode.not_coordinator))
            return
        if was_running and group_id not in self._running:
            self._retake.soon()  # it was lost meanwhile, and a takeover may have passed over it
        self._serve(group_id, pause)
        self._release_time(group_id)

    def _release_time(self, group_id: str) -> None:
        """Let time go on for members who were heard, unless somebody has the group alone next."""
        runner = self._running.get(group_id)
        if runner is not None and group_id not in self._paused:
            runner.release_time()

    def _start(
        self, work: Coroutine[Any, Any, None], group_ids: Sequence[str]
    ) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        pauses = {group_id: self._paused[group_id] for group_id in group_ids}
        task.add_done_callback(partial(self._ended, pauses))
        return task

    def _ended(self, pauses: Mapping[str, Pause], task: asyncio.Task[None]) -> None:
        """Tell those who still wait for it if it failed."""
        self._tasks.discard(task)
        if task.cancelled():
            error: BaseException = Refusal(ErrorCode.not_coordinator)
        else:
            failure = task.exception()
            if failure is None:
                return
            error = self._why(failure, list(pauses))
        self._give_up(pauses, error)

    def _give_up(self, pauses: Mapping[str, Pause], error: BaseException) -> None:
        for group_id, pause in pauses.items():
            if self._paused.get(group_id) is pause:  # else it was settled
                del self._paused[group_id]
                pause.refuse(error)
                self._release_time(group_id)

    def _why(self, failure: BaseException, group_ids: Sequence[str]) -> BaseException:
        """Return what those who wait are told; nobody knows which of several groups is to blame."""
        if isinstance(failure, MetadataUnavailable):
            if not self._closed:  # a takeover passes over those that are being taken for a request
                self._retake.soon()
            return coordinator_refusal(failure)
        if isinstance(failure, Refusal):
            if failure.code is ErrorCode.not_coordinator and not self._closed:
                self._retake.soon()  # it may have come back meanwhile, to be passed over as well
            return failure
        if len(group_ids) == 1:
            return failure
        log.error("bug while groups were taken", group_ids=group_ids[:10], exc_info=failure)
        return Refusal(ErrorCode.coordinator_not_available)

    def _settle(self, group_id: str, taken: TakenGroup | None) -> None:
        """Let those begin who waited for the group."""
        pause = self._paused.pop(group_id)
        is_ours = not self._closed and self._coordinates(group_id)
        if pause.is_overtaken or not is_ours:
            if is_ours:
                self._retake.soon()  # the takeover that comes with a change passes over it
            pause.refuse(Refusal(ErrorCode.not_coordinator))
            return
        try:
            if taken is None:
                self._begin_without(group_id, pause.waiters)
            else:
                self._begin(taken, pause)
        except BaseException:
            pause.refuse(Refusal(ErrorCode.unknown_server_error))
            raise

    def _begin(self, taken: TakenGroup, pause: Pause) -> None:
        runner = GroupRunner(
            taken,
            self._config_of(taken.group_id),
            writes=self._writes,
            metrics=self._metrics,
            lost=self.lose,
        )
        self._running[taken.group_id] = runner
        runner.start()
        if runner.machine.needs_catalog:
            runner.handle(TopicsChanged(catalog=self._catalog.current()))
        self._serve(taken.group_id, pause)

    def _begin_without(self, group_id: str, waiters: Sequence[Waiter]) -> None:
        for at, waiter in enumerate(waiters):
            if waiter.create:
                self._load(group_id, list(waiters[at:]))
                return
            if not waiter.answer.done():
                waiter.work(None, waiter.answer)


def _no_work(runner: GroupRunner | None, answer: Answered) -> None:
    """Do nothing: it is done."""
