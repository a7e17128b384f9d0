-- Forget a snapshot; false if there is none of that id.
-- $1 snapshot_id text.
-- Function: migrations/0014_snapshots.sql
SELECT deleted FROM streamhouse_internal.delete_snapshot($1) AS d (deleted)
