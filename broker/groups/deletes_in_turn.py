"""Groups are deleted some at a time: those that wait for their turn go with the one that has it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from storage.errors import MetadataUnavailable, NothingWritten, RowsHeld
from storage.metadata.groups import GroupStore

DELETES_AT_A_TIME: Final = 4
"""A request may name thousands of groups; others need sessions with Postgres meanwhile."""

GROUPS_PER_DELETE: Final = 200
"""A call and a write to the disk for each of 15,000 groups took longer than clients wait."""

WAIT_AT_MOST_S: Final = 30.0
"""For its turns: then nobody waits for the answer any more, but others may wait for the group."""


@dataclass(slots=True)
class _Waiting:
    """One group: by whom it is owned, and the statement that takes it along, once there is one."""

    owner_epoch: int
    taken_along: asyncio.Future[asyncio.Task[dict[str, bool]]] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class DeletesInTurn:
    """Deletes groups; each has an outcome of its own."""

    def __init__(self, store: GroupStore) -> None:
        self._store = store
        self._turns = asyncio.Semaphore(DELETES_AT_A_TIME)
        self._waiting: dict[str, _Waiting] = {}  # in the order in which they came

    async def delete(self, group_id: str, owner_epoch: int) -> bool:
        """Remove a group and its offsets; False if fenced. Nobody else deletes that group.

        Raises:
            MetadataUnavailable: its turn did not come, or there was no answer.
        """
        deadline_s = asyncio.get_running_loop().time() + WAIT_AT_MOST_S
        deleted = None
        try:
            while deleted is None:  # it was left to be asked for again
                deleted = await self._ask(group_id, _Waiting(owner_epoch), deadline_s)
        except TimeoutError:
            raise MetadataUnavailable("other groups are being deleted") from None
        return deleted

    async def _ask(self, group_id: str, mine: _Waiting, deadline_s: float) -> bool | None:
        self._waiting[group_id] = mine
        try:
            async with self._turn(deadline_s):
                if group_id in self._waiting:
                    return await self._begun(group_id)
        except TimeoutError:
            if group_id in self._waiting:
                raise
        finally:
            self._waiting.pop(group_id, None)
        try:
            deleted = await asyncio.shield(await mine.taken_along)
        except RowsHeld:  # those of who had the turn, who is told so
            return None
        except NothingWritten:  # nor would anything be for who asks again
            raise
        except MetadataUnavailable:  # another one's offsets may be too many for the time there is
            return await self._ask_alone(group_id, mine.owner_epoch, deadline_s)
        return deleted.get(group_id)

    async def _begun(self, group_id: str) -> bool:
        """Delete a group, with others that wait; without an answer, look whether it is gone."""
        try:
            return (await self._begin(group_id))[group_id]
        except NothingWritten:
            raise
        except MetadataUnavailable:
            if await self._store.has_group(group_id):
                raise
            return True

    async def _ask_alone(self, group_id: str, owner_epoch: int, deadline_s: float) -> bool:
        """Delete a group of which nobody knows whether it was deleted together with others.

        If it was, it is gone; if another broker has it, it is there.
        """
        async with self._turn(deadline_s):
            deleted = await self._store.delete_groups({group_id: owner_epoch})
            return deleted[group_id] or not await self._store.has_group(group_id)

    @asynccontextmanager
    async def _turn(self, deadline_s: float) -> AsyncIterator[None]:
        async with asyncio.timeout_at(deadline_s):
            await self._turns.acquire()
        try:
            yield
        finally:
            self._turns.release()

    def _begin(self, first: str) -> asyncio.Task[dict[str, bool]]:
        """Begin to delete a group, and others that wait; it is the first, which is waited for."""
        others = (group_id for group_id in self._waiting if group_id != first)
        chosen = [first, *islice(others, GROUPS_PER_DELETE - 1)]
        taken = {group_id: self._waiting.pop(group_id) for group_id in chosen}
        owned = {group_id: one.owner_epoch for group_id, one in taken.items()}
        deleting = asyncio.get_running_loop().create_task(self._store.delete_groups(owned))
        for one in taken.values():
            one.taken_along.set_result(deleting)
        return deleting
