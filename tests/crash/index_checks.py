"""What holds of the index in Postgres at any moment, whatever was cut off: seen in one snapshot."""

import asyncio
from typing import Final

import asyncpg

from storage.postgres.postgres_connection import Connection
from tests.crash.processes import until

WRONG: Final = """
WITH places AS (
    SELECT topic_id, partition, log_start_offset, high_watermark, built_offset
    FROM streamhouse_internal.partitions
), readable AS (
    SELECT
        s.topic_id, s.partition, s.start_offset, s.end_offset, s.index_length, s.object_id,
        p.log_start_offset, p.built_offset,
        lead(s.start_offset, 1, p.high_watermark) OVER one_log AS next_offset,
        row_number() OVER one_log AS number
    FROM streamhouse_internal.segments AS s
    JOIN places AS p USING (topic_id, partition)
    WHERE s.end_offset >= p.log_start_offset
    WINDOW one_log AS (PARTITION BY s.topic_id, s.partition ORDER BY s.end_offset)
)
SELECT topic_id, partition, start_offset, 'a gap or an overlap behind it' AS wrong
FROM readable WHERE next_offset <> end_offset + 1
UNION ALL
SELECT topic_id, partition, start_offset, 'the first row is behind the log start'
FROM readable WHERE number = 1 AND start_offset > log_start_offset
UNION ALL
SELECT topic_id, partition, start_offset, 'built and behind built_offset, or not and before it'
FROM readable WHERE (index_length IS NOT NULL) <> (end_offset < built_offset)
UNION ALL
SELECT topic_id, partition, start_offset, 'its object is ' || coalesce(o.state, 'unknown')
FROM readable LEFT JOIN streamhouse_internal.objects AS o USING (object_id)
WHERE object_id IS NOT NULL AND o.state IS DISTINCT FROM 'live'
UNION ALL
SELECT topic_id, partition, log_start_offset, 'there are no rows'
FROM places AS p
WHERE log_start_offset < high_watermark AND NOT EXISTS (
    SELECT FROM readable AS r WHERE r.topic_id = p.topic_id AND r.partition = p.partition
)
"""
ROWS: Final = """
SELECT index_length IS NOT NULL AS built, count(*) AS rows
FROM streamhouse_internal.segments GROUP BY built
"""


async def wrong_rows(dsn: str) -> list[str]:
    """Return rows that do not tile [log start, high watermark), or name what is not live."""
    connection: Connection = await asyncpg.connect(dsn)
    try:
        found = await connection.fetch(WRONG)
    finally:
        await connection.close()
    return [
        f"{row['topic_id']}-{row['partition']} at {row['start_offset']}: {row['wrong']}"
        for row in found
    ]


async def count_rows(dsn: str) -> dict[bool, int]:
    """Return how many rows of the index are of built segments (True), and how many are not."""
    connection: Connection = await asyncpg.connect(dsn)
    try:
        return {row["built"]: row["rows"] for row in await connection.fetch(ROWS)}
    finally:
        await connection.close()


def _rows_if_built(dsn: str) -> dict[bool, int] | None:
    rows = asyncio.run(count_rows(dsn))
    return rows if rows.get(True) else None


def report_index(dsn: str) -> str:
    """Return what the index has, for people, once something is built.

    Upkeep takes what others leave of the processors, and was killed now and then: where much else
    goes on, it may have come to nothing as long as there were faults.

    Raises:
        AssertionError: something is wrong with it, or nothing is ever built.
    """
    rows = until(lambda: _rows_if_built(dsn), "a built segment")
    wrong = asyncio.run(wrong_rows(dsn))
    assert not wrong, "\n".join(wrong[:20])
    return f"rows: {rows[True]} of segments, {rows.get(False, 0)} of the writer's"
