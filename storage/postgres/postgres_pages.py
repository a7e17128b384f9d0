"""Long lists from Postgres, some rows at a time: neither memory nor the event loop is filled."""

from collections.abc import AsyncIterator
from typing import Final

import asyncpg

from storage.postgres.postgres_pool import PostgresPool

ROWS_OF_PAGE: Final = 200
"""What is done with them takes a millisecond or two."""

_LEAST_CHARACTER: Final = "\x01"  # of text in Postgres


async def fetch_by_pages(pool: PostgresPool, name: str, key: str) -> AsyncIterator[asyncpg.Record]:
    """Run a statement again and again; return all of its rows.

    Args:
        pool: see its `fetch`, also for what is raised.
        name: of a statement that returns rows in the order of `key`, from $1 on, $2 at most.
        key: the column, a unique text of the collation "C".
    """
    start = ""
    while True:
        page = await pool.fetch(name, start, ROWS_OF_PAGE)
        for row in page:
            yield row
        if len(page) < ROWS_OF_PAGE:
            return
        start = page[-1][key] + _LEAST_CHARACTER  # no text is between the two
