"""What a batch without a broker looks at, however many sinks are remembered."""

from sql import query
from storage.postgres.postgres_connection import Connection, connect
from tests.storage.table_reads import table_reads
from tests.support.patience import PATIENT
from tests.support.postgres import create_database

SINKS = 20_000
EXPIRED = 15
AT_ONCE = 10  # are forgotten by each batch
HOUR_MS = 3_600_000
FILL = """
    INSERT INTO streamhouse_internal.sink_batches (sink_id, last_batch_id, forget_at)
    SELECT 'key:' || n, 0, now() + (n - $1) * interval '1 hour' FROM generate_series(1, $2) AS n
"""


async def committed(session: Connection, batch_id: int) -> int:
    """Commit a batch of no objects; return how many index entries of sinks it read."""
    no_objects = [[], "{}", "{}", [], *["{}"] * 6]
    before = await table_reads(session, ["sink_batches"])
    row = await session.fetchrow(query("sink_commit"), "mine", batch_id, HOUR_MS, *no_objects)
    after = await table_reads(session, ["sink_batches"])
    assert row is not None
    assert row["verdict"] == 0
    assert after["sink_batches"][0] == before["sink_batches"][0], "it is not read as a whole"
    return after["sink_batches"][1] - before["sink_batches"][1]


async def count_sinks(session: Connection) -> int:
    found = await session.fetchval("SELECT count(*) FROM streamhouse_internal.sink_batches")
    return int(found)


async def test_a_batch_looks_at_no_sinks_whose_time_has_not_come() -> None:
    # Given many sinks that are remembered, and a few whose time is over
    session = await connect(await create_database(), PATIENT)
    await session.execute("VACUUM ANALYZE")
    await session.execute(FILL, EXPIRED, SINKS)

    # When batches are committed, then each forgets a few of the latter, and looks at no others
    for batch_id, left in enumerate((SINKS - AT_ONCE, SINKS - EXPIRED, SINKS - EXPIRED)):
        assert await committed(session, batch_id) < 10 * AT_ONCE
        assert await count_sinks(session) == left + 1, "and its own"
    await session.close()
