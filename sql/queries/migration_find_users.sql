-- Transactions that use a table of the brokers now, whoever's they are. A vacuum, or an analyze, is none:
-- Postgres ends one that works by itself for whoever has stood behind it for a second.
SELECT DISTINCT l.virtualtransaction AS name
FROM pg_catalog.pg_locks AS l
INNER JOIN pg_catalog.pg_class AS c ON l.relation = c.oid
INNER JOIN pg_catalog.pg_namespace AS n ON c.relnamespace = n.oid
WHERE
    n.nspname = 'streamhouse_internal'
    AND l.granted
    AND l.database = (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = current_database())
    AND l.pid IS DISTINCT FROM pg_backend_pid()
    AND NOT EXISTS (SELECT FROM pg_catalog.pg_stat_progress_vacuum AS v WHERE v.pid = l.pid)
    AND NOT EXISTS (SELECT FROM pg_catalog.pg_stat_progress_analyze AS a WHERE a.pid = l.pid)
