-- Move the first readable offset of partitions forward; return where each begins and ends from now on.
-- $1 topic_id uuid[], $2 partition int[], $3 offset bigint[] (-1: the high watermark): same length,
-- partitions ascending, none twice.
-- Function: migrations/0008_delete_records.sql
SELECT
    topic_id, partition, log_start_offset, high_watermark, last_stable_offset, aborted_count
FROM streamhouse_internal.delete_records($1, $2, $3)
