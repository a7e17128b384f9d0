-- Write down where all partitions of topics are at one moment. created_at is null, and nothing was
-- written, if the id is taken, or topics are missing.
-- $1 snapshot_id text; $2 topic text[]: null for all; $3 retention_ms bigint: null for no end.
-- Function: migrations/0014_snapshots.sql
SELECT created_at, partition_count, missing
FROM streamhouse_internal.create_snapshot($1, $2, $3::bigint * interval '1 millisecond')
