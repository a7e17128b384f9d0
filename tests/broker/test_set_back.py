"""A database that was set back: who sees it says so, and nobody goes on with it (SetBack)."""

import asyncio
from collections.abc import Sequence
from random import Random

import pytest
from structlog.testing import capture_logs

from broker.configs.entity_configs import EntityConfigs
from broker.set_back import SetBack
from storage.errors import MetadataUnavailable, MetadataWentBack
from storage.metadata.entity_configs import EntityChange, EntityConfigValues
from tests.support.fakes.metadata import MemoryMetadata

SEEN = MetadataWentBack("partition 0 ends at 1 in it")


class Silent(MemoryMetadata):
    """A database that takes no change, and says nothing."""

    async def alter_entity_configs(self, changes: Sequence[EntityChange]) -> EntityConfigValues:
        await asyncio.sleep(3600)
        return await super().alter_entity_configs(changes)


async def opened(metadata: MemoryMetadata, *, accepted: bool = False) -> SetBack:
    """Return what a broker has that starts now."""
    configs = EntityConfigs(metadata)
    await configs.refresh()
    return SetBack(configs, accepted=accepted)


async def end(set_back: SetBack, error: Exception = SEEN) -> None:
    """Let a part of a broker end with an error."""

    async def fail() -> None:
        raise error

    async def serve() -> None:
        async with set_back.marking(), asyncio.TaskGroup() as tasks:
            tasks.create_task(fail())

    with pytest.raises(ExceptionGroup) as ended:
        await serve()
    assert ended.value.exceptions == (error,)


async def test_what_one_broker_has_seen_ends_all_and_none_starts() -> None:
    # Given two brokers that run
    metadata = MemoryMetadata(Random(3))
    one, other_configs = await opened(metadata), EntityConfigs(metadata)
    other = SetBack(other_configs, accepted=False)
    await one.begin()
    await other.begin()
    following = asyncio.create_task(other.follow())

    # When one of them ends because the database has gone back
    await end(one)
    await other_configs.refresh()

    # Then so does the other, and none starts
    with pytest.raises(MetadataWentBack, match="ends at 1 in it"):
        await following
    for _ in range(2):
        with pytest.raises(MetadataWentBack, match="ends at 1 in it"):
            await (await opened(metadata)).begin()

    # And once somebody has accepted it, all do
    await (await opened(metadata, accepted=True)).begin()
    await (await opened(metadata)).begin()


async def test_who_accepts_it_neither_marks_a_database_nor_ends() -> None:
    # Given two brokers, one of which is to go on
    metadata = MemoryMetadata(Random(3))
    configs = EntityConfigs(metadata)
    accepting = SetBack(configs, accepted=True)
    following = asyncio.create_task(accepting.follow())

    # When the other one sees it, then that one goes on
    await end(await opened(metadata))
    await configs.refresh()
    await asyncio.sleep(0.01)
    assert not following.done()
    following.cancel()

    # And when it is the accepting one that sees it, others go on
    await accepting.begin()
    await end(accepting)
    await (await opened(metadata)).begin()


async def test_another_failure_marks_nothing() -> None:
    metadata = MemoryMetadata(Random(3))
    await end(await opened(metadata), ValueError("a bug"))
    await (await opened(metadata)).begin()


async def test_a_database_that_answers_late_is_marked_all_the_same() -> None:
    class Late(MemoryMetadata):
        refusals = 3

        async def alter_entity_configs(self, changes: Sequence[EntityChange]) -> EntityConfigValues:
            self.refusals -= 1
            if self.refusals >= 0:
                raise MetadataUnavailable("going over to a standby")
            return await super().alter_entity_configs(changes)

    metadata = Late(Random(3))
    await end(await opened(metadata))
    with pytest.raises(MetadataWentBack):
        await (await opened(metadata)).begin()


async def test_a_database_that_does_not_answer_does_not_hold_up_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("broker.set_back.MARK_S", 0.01)
    with capture_logs() as logs:
        await end(await opened(Silent(Random(3))))
    assert [line["event"] for line in logs] == ["the other brokers do not know of it"]
