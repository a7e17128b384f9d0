"""What is removed of groups: they themselves, and offsets that they committed.

Nobody else gets at the group meanwhile. Whoever comes later has to find it gone; and what a member
commits after its topic was found to be nobody's must not be removed with what was there before.
"""

from collections.abc import Sequence

from kio.schema.errors import ErrorCode

from broker.groups.deletes_in_turn import DeletesInTurn
from broker.groups.group_runner import Answered, GroupRunner
from broker.groups.group_table import GroupTable
from broker.refusals import Refusal, coordinator_refusal
from protocol.ids import Partition
from storage.errors import MetadataUnavailable, NothingWritten
from storage.metadata.groups import GroupStore


class GroupDeletions:
    """Removes what a request for a group in memory asks for, and sees to its answer."""

    def __init__(self, store: GroupStore, table: GroupTable) -> None:
        self._store = store
        self._table = table
        self._deletes = DeletesInTurn(store)

    def delete(self, runner: GroupRunner, answer: Answered) -> None:
        """Remove a group and its offsets; answered with NONE."""
        runner.disown(answer)
        self._table.lose(runner, ErrorCode.not_coordinator)
        self._table.run_alone(runner.group_id, self._delete(runner, answer), answer)

    def delete_offsets(
        self, runner: GroupRunner, partitions: Sequence[Partition], answer: Answered
    ) -> None:
        """Remove committed offsets; answered with True."""
        work = self._delete_offsets(runner, partitions, answer)
        self._table.run_alone(runner.group_id, work, answer)

    async def _delete(self, runner: GroupRunner, answer: Answered) -> None:
        if not await self._deletes.delete(runner.group_id, runner.owner_epoch):
            raise Refusal(ErrorCode.not_coordinator)  # another broker has taken it
        if not answer.done():
            answer.set_result(ErrorCode.none)

    async def _delete_offsets(
        self, runner: GroupRunner, partitions: Sequence[Partition], answer: Answered
    ) -> None:
        """The group stays in memory, unless it has to be taken again before it is written again."""
        try:
            done = await self._store.delete_offsets(runner.group_id, runner.owner_epoch, partitions)
        except NothingWritten as failure:
            if not answer.done():
                answer.set_exception(coordinator_refusal(failure))
        except MetadataUnavailable:
            self._table.lose(runner, ErrorCode.coordinator_not_available)
        else:
            if not done:
                self._table.lose(runner, ErrorCode.not_coordinator)
            elif not answer.done():
                answer.set_result(True)
