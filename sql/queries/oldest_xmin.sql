-- The oldest of what keeps dead rows of this database from being removed; no row if nothing does. A vacuum
-- keeps none. Who has a snapshot and no database is a standby with hot_standby_feedback; that, and slots, go
-- for all databases.
-- seconds: since it began. It is null where Postgres does not tell: of slots and standbys, and of sessions of
-- other roles, unless this one is a member of theirs or of pg_read_all_stats.
-- transactions: those that were begun since, in all databases.
SELECT h.kind, h.name, h.application, h.pid, h.seconds, h.transactions
FROM (
    SELECT
        CASE WHEN a.datid IS NULL THEN 'standby' ELSE 'session' END AS kind,
        a.usename::text AS name,
        a.application_name AS application,
        a.pid,
        extract(EPOCH FROM clock_timestamp() - a.xact_start)::float8 AS seconds,
        greatest(age(a.backend_xid), age(a.backend_xmin)) AS transactions
    FROM pg_catalog.pg_stat_activity AS a
    WHERE
        (a.datid IS NULL OR a.datname = current_database())
        AND a.pid <> pg_backend_pid()
        AND NOT EXISTS (SELECT FROM pg_catalog.pg_stat_progress_vacuum AS v WHERE v.pid = a.pid)
    UNION ALL
    SELECT
        'prepared transaction', gid, NULL, NULL,
        extract(EPOCH FROM clock_timestamp() - prepared)::float8,
        age(transaction)
    FROM pg_catalog.pg_prepared_xacts
    WHERE database = current_database()
    UNION ALL
    SELECT 'replication slot', slot_name::text, NULL, active_pid, NULL, age(xmin)
    FROM pg_catalog.pg_replication_slots
) AS h
WHERE h.transactions IS NOT NULL
ORDER BY h.transactions DESC, h.seconds DESC NULLS LAST
LIMIT 1
