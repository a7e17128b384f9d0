"""How the statements of reports reach rows in big tables."""

from sql import query
from storage.postgres.postgres_connection import connect
from tests.storage.table_reads import table_reads
from tests.support.patience import PATIENT
from tests.support.postgres import create_database

PARTITIONS = 20
ROWS = 1000  # of each partition, in the order in which a broker writes them: by turns
FILL = """
    INSERT INTO streamhouse_internal.objects (path, state, size)
    SELECT 'wal/' || n, 'live', 7 FROM generate_series(1, $1) AS n
"""
FILL_INDEX = """
    INSERT INTO streamhouse_internal.segments (
        topic_id, partition, start_offset, end_offset, object_id, byte_start, byte_length,
        max_timestamp_ms
    )
    SELECT p.topic_id, p.partition, o.object_id, o.object_id, o.object_id, 0, 5, 0
    FROM streamhouse_internal.objects AS o, streamhouse_internal.partitions AS p
    ORDER BY o.object_id
"""


async def test_sizes_of_all_topics_are_read_as_they_lie() -> None:
    """Along the key, the rows of a partition are on as many pages as there are objects."""
    # Given a broker's session, and many rows since the server counted them
    session = await connect(await create_database(), PATIENT)
    await session.execute("VACUUM ANALYZE")
    assert len(await session.fetch(query("usage_find_stored"))) == 1
    await session.fetch(query("topic_create"), "big", PARTITIONS, 1, "{}")
    await session.execute(FILL, ROWS)
    await session.execute(FILL_INDEX)

    # When all bytes are added up
    tables = ["segments", "objects"]
    before = await table_reads(session, tables)
    rows = await session.fetch(query("usage_find_stored"))
    after = await table_reads(session, tables)

    # Then each table was read once as a whole, and nothing by key
    assert {row["topic"]: row["size"] for row in rows} == {
        "big": 5 * PARTITIONS * ROWS,
        None: 7 * ROWS,
    }
    assert after == {table: (scans + 1, entries) for table, (scans, entries) in before.items()}

    # And the session goes on reading by key
    assert await session.fetchval("SHOW enable_seqscan") == "off"
    await session.close()
