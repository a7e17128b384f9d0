"""How tables are read, by the statistics of Postgres."""

from collections.abc import Sequence

from storage.postgres.postgres_connection import Connection


async def table_reads(session: Connection, tables: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Return for each table how often it was read as a whole, and how many index entries were."""
    await session.execute("SELECT pg_stat_force_next_flush()")
    rows = await session.fetch(
        "SELECT t.relname, t.seq_scan, sum(i.idx_tup_read)::bigint AS entries "
        "FROM pg_stat_user_tables AS t JOIN pg_stat_user_indexes AS i USING (relid) "
        "WHERE t.schemaname = 'streamhouse_internal' AND t.relname = ANY ($1::text[]) "
        "GROUP BY t.relname, t.seq_scan",
        tables,
    )
    return {row["relname"]: (row["seq_scan"], row["entries"]) for row in rows}
