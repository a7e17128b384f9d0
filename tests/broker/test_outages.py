"""While Postgres is away the log says so once a minute, however often it is asked."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from structlog.testing import capture_logs

from broker.shared_load import SharedLoad
from storage.errors import MetadataUnavailable
from tests.broker.test_transactions import World
from tests.storage.log_bench import running_log
from tests.support.virtual_time import run

AWAY_S = 125.0
BACK_S = 10.0


class Reader:
    """Waits for records, and is told of none."""

    read_committed = False
    waits = True

    def grown(self, size: int) -> None: ...

    def moved(self) -> None: ...


async def ask_postgres(*_: object) -> dict[str, object]:
    """Fail until it is back for a while, and after that."""
    if not AWAY_S <= asyncio.get_running_loop().time() < AWAY_S + BACK_S:
        raise MetadataUnavailable("away")
    return {}


async def load() -> None:
    await ask_postgres()


async def poll_topics() -> None:
    await SharedLoad(load).poll("topics")


async def poll_commits() -> None:
    async with running_log() as bench:
        (partition,) = await bench.create_partitions()
        (await bench.known(partition)).add_waiter(Reader())
        bench.metadata.changed_offsets = ask_postgres  # type: ignore[assignment,method-assign]
        await bench.log.poll()


async def abort_overdue() -> None:
    world = World()
    world.store.overdue_transactions = ask_postgres  # type: ignore[assignment,method-assign]
    await world.upkeep().run()


@pytest.mark.parametrize("works", [poll_topics, poll_commits, abort_overdue])
def test_an_outage_is_told_when_it_begins_and_once_a_minute(
    works: Callable[[], Coroutine[Any, Any, None]],
) -> None:
    # When Postgres is away for two minutes, back for a moment, and away again
    async def story() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(AWAY_S + BACK_S + 30):
                await works()

    with capture_logs() as lines:
        run(story())

    # Then each outage is told, and that the first one lasts
    assert [line["log_level"] for line in lines] == ["warning"] * 4
