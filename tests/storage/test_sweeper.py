"""The sweeper over the in-memory metadata and object store, with a clock that the test moves."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

import pytest
from structlog.testing import capture_logs

from storage.config import UpkeepConfig
from storage.errors import ObjectStoreUnavailable
from storage.upkeep.sweeper import OBJECTS_PER_DELETE, Sweeper, Swept
from tests.contracts.metadata_stores import a_batch, commit, create_partitions
from tests.support.fakes.metadata import MemoryMetadata
from tests.support.fakes.objects import MemoryStore

HOUR_MS = 60 * 60 * 1000
DELAY_MS = 60_000
NOTHING = Swept(abandoned=0, unneeded=0, deleted=0)


class CountingStore(MemoryStore):
    """Counts deletes; refuses them while it is `away`, and always what is `held`."""

    def __init__(self) -> None:
        super().__init__()
        self.away = False
        self.held: set[str] = set()
        self.deletes: list[int] = []

    async def delete(self, paths: Sequence[str]) -> dict[str, str]:
        if self.away:
            raise ObjectStoreUnavailable("503 SlowDown")
        self.deletes.append(len(paths))
        await super().delete([path for path in paths if path not in self.held])
        return {path: "AccessDenied" for path in paths if path in self.held}

    async def paths(self) -> set[str]:
        return {one.path async for one in self.list("")}


@dataclass
class World:
    """A cluster's metadata, its store, and its clock."""

    now_ms: int = 0
    config: UpkeepConfig = field(
        default_factory=lambda: UpkeepConfig(abandoned_ms=HOUR_MS, delete_delay_ms=DELAY_MS)
    )
    objects: CountingStore = field(default_factory=CountingStore)
    metadata: MemoryMetadata = field(init=False)
    sweeper: Sweeper = field(init=False)

    def __post_init__(self) -> None:
        self.metadata = MemoryMetadata(Random(1), lambda: self.now_ms)
        self.begin_anew()

    def begin_anew(self) -> None:
        """Be another process, as after a crash."""
        self.sweeper = Sweeper(metadata=self.metadata, objects=self.objects, config=self.config)

    async def uploaded(self, *paths: str) -> None:
        """Reserve and upload, without a commit."""
        await self.metadata.reserve_objects(paths)
        for path in paths:
            await self.objects.put(path, [b"x"])


async def test_an_upload_that_was_never_committed_goes_after_its_time() -> None:
    # Given an object that was uploaded, and never committed
    world = World()
    await world.uploaded("wal/orphan")

    # When it is not old enough, then it stays
    world.now_ms += HOUR_MS - 1
    assert await world.sweeper.run() == NOTHING

    # When it is, then it is given up at once, and its bytes go after the delay
    world.now_ms += 1
    assert await world.sweeper.run() == Swept(abandoned=1, unneeded=0, deleted=0)
    world.now_ms += DELAY_MS - 1
    assert await world.sweeper.run() == NOTHING
    assert await world.objects.paths() == {"wal/orphan"}
    world.now_ms += 1
    assert await world.sweeper.run() == Swept(abandoned=0, unneeded=0, deleted=1)
    assert await world.objects.paths() == set()
    assert await world.sweeper.run() == NOTHING


async def test_what_the_log_needs_stays_for_ever() -> None:
    world = World()
    (partition,) = await create_partitions(world.metadata, 1)
    await commit(world.metadata, [a_batch(partition, 0)])
    for _ in range(3):
        world.now_ms += 100 * HOUR_MS
        assert await world.sweeper.run() == NOTHING


async def test_many_objects_go_a_thousand_at_a_time() -> None:
    # Given more abandoned uploads than one DeleteObjects takes
    world = World()
    await world.uploaded(*(f"wal/{number}" for number in range(2 * OBJECTS_PER_DELETE + 5)))
    world.now_ms += HOUR_MS
    await world.sweeper.run()

    # When their time has come
    world.now_ms += DELAY_MS
    swept = await world.sweeper.run()

    # Then all go in one sweep
    assert swept.deleted == 2 * OBJECTS_PER_DELETE + 5
    assert world.objects.deletes == [OBJECTS_PER_DELETE, OBJECTS_PER_DELETE, 5]
    assert await world.objects.paths() == set()


async def test_a_store_that_is_away_holds_it_up_and_loses_nothing() -> None:
    # Given doomed objects, and a store that refuses
    world = World()
    await world.uploaded("wal/1", "wal/2")
    world.now_ms += HOUR_MS
    await world.sweeper.run()
    world.now_ms += DELAY_MS
    world.objects.away = True
    with pytest.raises(ObjectStoreUnavailable):
        await world.sweeper.run()

    # When it is back, and another process goes on, then both go
    world.objects.away = False
    world.begin_anew()
    assert (await world.sweeper.run()).deleted == 2


async def test_what_the_store_does_not_let_go_holds_up_nothing_else() -> None:
    # Given more doomed objects than one DeleteObjects takes, the oldest of which a legal hold keeps
    world = World()
    world.objects.held = {"wal/held"}
    await world.uploaded("wal/held")
    world.now_ms += 1
    await world.uploaded(*(f"wal/{number}" for number in range(OBJECTS_PER_DELETE + 5)))
    world.now_ms += HOUR_MS
    await world.sweeper.run()

    # When their time has come, then all others go, and it is told
    world.now_ms += DELAY_MS
    with capture_logs() as logs:
        swept = await world.sweeper.run()
    assert (swept.deleted, swept.refused) == (OBJECTS_PER_DELETE + 5, 1)
    assert [(one["log_level"], one["path"], one["reason"]) for one in logs] == [
        ("warning", "wal/held", "AccessDenied")
    ]
    assert await world.objects.paths() == {"wal/held"}

    # And it is left alone for an hour
    world.now_ms += HOUR_MS + DELAY_MS - 1
    assert await world.sweeper.run() == NOTHING

    # When the hold is gone, then it goes with its next turn
    world.objects.held = set()
    world.now_ms += 1
    assert (await world.sweeper.run()).deleted == 1
    assert (await world.metadata.backlog())["doomed"] == 0


async def test_bytes_that_are_gone_already_are_no_obstacle() -> None:
    # Given a doomed object whose bytes went before its row: a crash between the two
    world = World()
    await world.uploaded("wal/1")
    world.now_ms += HOUR_MS
    await world.sweeper.run()
    await world.objects.delete(["wal/1"])

    # When the next sweep comes, then the row goes, too
    world.now_ms += DELAY_MS
    assert (await world.sweeper.run()).deleted == 1
    assert (await world.metadata.backlog())["doomed"] == 0


async def test_a_live_object_that_no_row_names_is_found() -> None:
    # Given an object whose commit made no row of the index, because its topic had gone
    world = World()
    (partition,) = await create_partitions(world.metadata, 1)
    await world.metadata.delete_topic(partition.topic_id)
    await commit(world.metadata, [a_batch(partition, 0)])

    # When it is old enough, then some sweep takes it away
    world.now_ms += HOUR_MS
    swept = [await world.sweeper.run()]
    world.now_ms += DELAY_MS
    swept.append(await world.sweeper.run())
    assert sum(each.deleted for each in swept) == 1
