"""Which groups are in memory; requests for a group that is being loaded wait, and keep their order.

A group is loaded by the first request for it, or before, when it becomes ours (group_upkeep.py). It
leaves when it is no longer ours, when a write of it failed (group_writes.py), or when nobody needs
it. Those who wait are then told with a code that makes clients look for the coordinator again.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker.group_catalog import GroupCatalog
from broker.group_runner import Answered, GroupRunner
from broker.group_writes import GroupWrites
from broker.metrics import GroupMetrics
from broker.refusals import Refusal
from coordinator.config import GroupConfig
from coordinator.events import TopicsChanged
from storage.errors import MetadataUnavailable
from storage.groups import GroupStore, TakenGroup

MAX_GROUP_ID_LENGTH: Final = 512
"""Characters; an id is part of keys in Postgres, which have a limit (Kafka's is 32,767 bytes)."""

Work = Callable[[GroupRunner | None, Answered], None]
"""Does what a request asks for and sees to its answer; the group is None if there is no such."""


@dataclass(frozen=True, slots=True)
class _Waiter:
    work: Work
    answer: Answered
    create: bool

    def refuse(self, error: BaseException) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


@dataclass(slots=True)
class _Pause:
    """A group that is being taken, or deleted, and the requests for it meanwhile, in order."""

    waiters: list[_Waiter] = field(default_factory=list)

    def refuse(self, error: BaseException) -> None:
        for waiter in self.waiters:
            waiter.refuse(error)


class GroupTable:
    """The groups in memory.

    Args:
        coordinates: whether this broker is the coordinator of a group id.
    """

    def __init__(
        self,
        *,
        store: GroupStore,
        writes: GroupWrites,
        catalog: GroupCatalog,
        coordinates: Callable[[str], bool],
        config: GroupConfig,
        metrics: GroupMetrics,
    ) -> None:
        self._store = store
        self._writes = writes
        self._catalog = catalog
        self._coordinates = coordinates
        self._config = config
        self._metrics = metrics
        self._running: dict[str, GroupRunner] = {}
        self._paused: dict[str, _Pause] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def running(self) -> list[GroupRunner]:
        """Return the groups in memory."""
        return list(self._running.values())

    def get(self, group_id: str) -> GroupRunner | None:
        return self._running.get(group_id)

    def states(self) -> Mapping[str, int]:
        """Count the groups in memory by their state."""
        return Counter(runner.machine.state.value for runner in self._running.values())

    def call(self, group_id: str, work: Work, *, create: bool = False) -> Answered:
        """Have something done with the group, after all that was asked of it before.

        The answer's exception is a Refusal if it is not ours, or cannot be loaded.
        """
        answer: Answered = asyncio.get_running_loop().create_future()
        if self._closed or not self._coordinates(group_id):
            answer.set_exception(Refusal(ErrorCode.not_coordinator))
        elif len(group_id) > MAX_GROUP_ID_LENGTH:
            answer.set_exception(Refusal(ErrorCode.invalid_group_id))
        elif (runner := self._running.get(group_id)) is not None:
            runner.do(work, answer)
        elif (pause := self._paused.get(group_id)) is not None:
            pause.waiters.append(_Waiter(work, answer, create))
        else:
            self._load(group_id, [_Waiter(work, answer, create)])
        return answer

    def take_over(self, group_ids: Iterable[str]) -> asyncio.Task[None]:
        """Load those groups that are not in memory, with one statement.

        The task's exception is MetadataUnavailable if none could be.
        """
        missing = [
            group_id
            for group_id in group_ids
            if group_id not in self._running and group_id not in self._paused
        ]
        for group_id in missing:
            self._paused[group_id] = _Pause()
        return self._start(self._take(missing, create=False), missing)

    def delete(self, runner: GroupRunner, answer: Answered) -> None:
        """Delete a group while nobody else can get at it; answered with what became of that."""
        runner.disown(answer)
        self.lose(runner, ErrorCode.not_coordinator)
        self._paused[runner.group_id] = _Pause([_Waiter(_no_work, answer, create=False)])
        self._start(self._delete(runner, answer), [runner.group_id])

    def lose(self, runner: GroupRunner, code: ErrorCode) -> None:
        """Drop a group from memory; those who wait are answered with `code`."""
        if self._running.get(runner.group_id) is runner:
            del self._running[runner.group_id]
            self._writes.discard(runner.group_id)
        runner.close(code)

    def close(self) -> None:
        """Drop all groups, and take no more; nothing needs saving."""
        self._closed = True
        for runner in self.running():
            self.lose(runner, ErrorCode.not_coordinator)
        for task in self._tasks:
            task.cancel()

    # --- loading

    def _load(self, group_id: str, waiters: list[_Waiter]) -> None:
        self._paused[group_id] = _Pause(waiters)
        self._start(self._take([group_id], create=waiters[0].create), [group_id])

    async def _take(self, group_ids: Sequence[str], *, create: bool) -> None:
        taken = {
            one.group_id: one for one in await self._store.take_groups(group_ids, create=create)
        }
        if any(one.record is not None for one in taken.values()):
            await self._catalog.refresh()
        loop = asyncio.get_running_loop()
        for group_id in group_ids:  # each by itself, so that a bug with one costs only that one
            loop.call_soon(self._settle, group_id, taken.get(group_id))

    async def _delete(self, runner: GroupRunner, answer: Answered) -> None:
        deleted = await self._store.delete_group(runner.group_id, runner.owner_epoch)
        if not deleted:  # another broker has taken it
            raise Refusal(ErrorCode.not_coordinator)
        answer.set_result(ErrorCode.none)
        self._settle(runner.group_id, None)

    def _start(
        self, work: Coroutine[Any, Any, None], group_ids: Sequence[str]
    ) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(partial(self._ended, group_ids))
        return task

    def _ended(self, group_ids: Sequence[str], task: asyncio.Task[None]) -> None:
        """Tell those who wait if it failed."""
        self._tasks.discard(task)
        if task.cancelled():
            error: BaseException = Refusal(ErrorCode.not_coordinator)
        else:
            failure = task.exception()
            if failure is None:
                return
            error = refusal_of(failure) if isinstance(failure, MetadataUnavailable) else failure
        for group_id in group_ids:
            if (pause := self._paused.pop(group_id, None)) is not None:
                pause.refuse(error)

    def _settle(self, group_id: str, taken: TakenGroup | None) -> None:
        """Let those begin who waited for the group."""
        pause = self._paused.pop(group_id)
        if self._closed or not self._coordinates(group_id):
            pause.refuse(Refusal(ErrorCode.not_coordinator))
            return
        try:
            if taken is None:
                self._begin_without(group_id, pause.waiters)
            else:
                self._begin(taken, pause.waiters)
        except BaseException:
            pause.refuse(Refusal(ErrorCode.unknown_server_error))
            raise

    def _begin(self, taken: TakenGroup, waiters: Sequence[_Waiter]) -> None:
        runner = GroupRunner(
            taken, self._config, writes=self._writes, metrics=self._metrics, lost=self.lose
        )
        self._running[taken.group_id] = runner
        runner.start()
        if runner.machine.needs_catalog:
            runner.handle(TopicsChanged(catalog=self._catalog.current()))
        for waiter in waiters:
            runner.do(waiter.work, waiter.answer)

    def _begin_without(self, group_id: str, waiters: Sequence[_Waiter]) -> None:
        for at, waiter in enumerate(waiters):
            if waiter.create:
                self._load(group_id, list(waiters[at:]))
                return
            if not waiter.answer.done():
                waiter.work(None, waiter.answer)


def refusal_of(unavailable: MetadataUnavailable) -> Refusal:
    """Return what answers a request about groups that Postgres did not: clients try again."""
    return Refusal(ErrorCode.coordinator_not_available, str(unavailable))


def _no_work(runner: GroupRunner | None, answer: Answered) -> None:
    """Do nothing: the answer is on its way."""
