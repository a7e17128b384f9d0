"""How the statements of the sweeper reach objects, however many are doomed or pending."""

from collections.abc import AsyncIterator

import pytest

from sql import query
from storage.postgres.postgres_connection import Connection, connect
from tests.storage.table_reads import table_reads
from tests.support.patience import PATIENT
from tests.support.postgres import create_database

MANY = 20_000
FEW = 50
HOUR_MS = 3_600_000
FILL = """
    INSERT INTO streamhouse_internal.objects (path, state, state_at, created_at)
    SELECT $1 || '/' || n, $1, now() - n * interval '1 microsecond', now()
    FROM generate_series(1, $2) AS n
"""


@pytest.fixture
async def session() -> AsyncIterator[Connection]:
    """A session as a broker has it, on a fresh database."""
    opened = await connect(await create_database(), PATIENT)
    yield opened
    await opened.close()


async def entries_read(session: Connection, name: str, *arguments: object) -> int:
    """Run a statement; return how many entries of the indexes of objects it read."""
    before = await table_reads(session, ["objects"])
    await session.fetch(query(name), *arguments)
    after = await table_reads(session, ["objects"])
    assert after["objects"][0] == before["objects"][0], "nor is the table read as a whole"
    return after["objects"][1] - before["objects"][1]


async def count_objects(session: Connection, state: str) -> int:
    found = await session.fetchval(
        "SELECT count(*) FROM streamhouse_internal.objects WHERE state = $1", state
    )
    return int(found)


@pytest.mark.parametrize("counted", ["before", "after"])
@pytest.mark.parametrize(
    ("name", "state", "more", "left"),
    [
        ("object_forget", "doomed", (), MANY - FEW),
        ("object_postpone", "doomed", (1000,), MANY),
        ("sink_abandon", "pending", (), MANY - FEW),
    ],
)
async def test_objects_are_reached_by_path(
    session: Connection, name: str, state: str, more: tuple[int, ...], left: int, counted: str
) -> None:
    # Given many objects in a state, counted by the server before they were there, or with them
    if counted == "before":
        await session.execute("VACUUM ANALYZE")
        await session.fetch(query(name), [], *more)
    await session.execute(FILL, state, MANY)
    await session.execute(FILL, "live", FEW)
    if counted == "after":
        await session.execute("VACUUM ANALYZE")

    # When something is done to some of them, and nothing to those in another state
    paths = [f"{state}/{n}" for n in range(1, FEW + 1)] + [f"live/{n}" for n in range(1, FEW + 1)]
    read = await entries_read(session, name, paths, *more)

    # Then no others were looked at
    assert read < 10 * FEW
    assert await count_objects(session, state) == left
    assert await count_objects(session, "live") == FEW


@pytest.mark.parametrize("counted", ["before", "after"])
@pytest.mark.parametrize(
    ("name", "state"), [("object_find_doomed", "doomed"), ("object_doom_abandoned", "pending")]
)
async def test_objects_whose_time_has_not_come_are_not_looked_at(
    session: Connection, name: str, state: str, counted: str
) -> None:
    # Given many objects that have been in a state for next to no time
    if counted == "before":
        await session.execute("VACUUM ANALYZE")
        await session.fetch(query(name), HOUR_MS, FEW)
    await session.execute(FILL, state, MANY)
    if counted == "after":
        await session.execute("VACUUM ANALYZE")

    # When those are looked for that have been for an hour, then none of these are looked at
    assert await entries_read(session, name, HOUR_MS, FEW) < FEW

    # And of those that have been for long enough no more than are asked for
    assert await entries_read(session, name, 0, FEW) < 4 * FEW
