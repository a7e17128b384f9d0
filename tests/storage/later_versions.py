"""Migrations that later versions might come with."""

import pytest

from sql import Migration, migrations
from storage.config import PostgresConfig
from storage.postgres.migrate import migrate

ALONG = Migration(
    name="9998_along",
    text="""
        DO $$ DECLARE t regclass; BEGIN
            FOR t IN
                SELECT oid FROM pg_class
                WHERE relnamespace = 'streamhouse_internal'::regnamespace AND relkind IN ('r', 'p')
            LOOP
                EXECUTE format('ALTER TABLE %s ADD COLUMN later int', t);
            END LOOP;
        END $$
    """,
    checksum="a",
    stops_older=False,
)
NEW_ONLY = Migration(
    name="9997_new_only",
    text="CREATE TABLE streamhouse_internal.later (id int)",
    checksum="n",
    stops_older=False,
)
SLOW = Migration(
    name="9998_slow",
    text="LOCK TABLE streamhouse_internal.brokers; SELECT pg_sleep(60)",
    checksum="w",
    stops_older=False,
)
STOPPING = Migration(
    name="9999_stopping",
    text="ALTER TABLE streamhouse_internal.topics RENAME TO later_topics",
    checksum="s",
    stops_older=True,
)


async def migrate_to(later: Migration, dsn: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Migrate as a version does that has one migration more."""
    with monkeypatch.context() as patched:
        known = [*migrations(), later]
        patched.setattr("storage.postgres.migrate.migrations", lambda: known)
        return await migrate(dsn, PostgresConfig())
