"""A task stays claimed while it is worked on, and what fails beside the work is not lost."""

import asyncio
from random import Random
from uuid import UUID

import pytest

from protocol.ids import Partition
from storage.errors import MetadataUnavailable
from storage.metadata.tasks import TaskKind
from storage.upkeep import task_lease
from storage.upkeep.task_lease import claimed
from tests.support.fakes.metadata import MemoryMetadata

PARTITION = Partition(UUID(int=1), 0)


class Renewing(MemoryMetadata):
    """A store with one task, whose lease cannot be renewed."""

    def __init__(self, failure: Exception) -> None:
        super().__init__(Random(1))
        self._failure = failure
        self.tried = asyncio.Event()

    async def renew_task(self, kind: TaskKind, partition: Partition, lease_ms: int) -> None:
        self.tried.set()
        raise self._failure


async def work_until_renewed(store: Renewing) -> None:
    await store.add_tasks(TaskKind.BUILD, [PARTITION])
    async with claimed(store, TaskKind.BUILD) as partition:
        assert partition == PARTITION
        await store.tried.wait()


@pytest.fixture(autouse=True)
def _short_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_lease, "LEASE_MS", 3)


async def test_a_lease_that_is_not_renewed_does_not_end_the_work() -> None:
    # Given a store that does not answer when a lease is renewed
    store = Renewing(MetadataUnavailable("away"))

    # When a task is worked on, then it comes to its end
    await work_until_renewed(store)
    assert await store.claim_task(TaskKind.BUILD, 3) is None


async def test_a_bug_in_the_renewal_is_raised() -> None:
    # Given a renewal that fails in a way that nobody has thought of
    store = Renewing(RuntimeError("bug"))

    # When a task is worked on, then who works on it is told
    with pytest.raises(RuntimeError, match="bug"):
        await work_until_renewed(store)
