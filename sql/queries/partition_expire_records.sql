-- Move log start offsets past rows that have had their time; return the new ones.
-- $1 topic_id uuid[], $2 partition int[], $3 before_ms bigint[], $4 keep_bytes bigint[]: same length,
-- partitions ascending, none twice. null in $3 or $4 keeps all.
-- Function: migrations/0036_many_groups_and_aborts.sql
SELECT topic_id, partition, log_start_offset
FROM streamhouse_internal.expire_records($1, $2, $3, $4)
