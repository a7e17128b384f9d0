-- Move the first readable offset of partitions forward; return where each begins and ends from now on.
-- $1 topic_id uuid[], $2 partition int[], $3 offset bigint[] (-1: the high watermark): same length,
-- partitions ascending, none twice.
-- Function: migrations/0036_many_groups_and_aborts.sql
-- Function: migrations/0008_delete_records.sql
SELECT
    topic_id, partition, log_start_offset, high_watermark, last_stable_offset,
    CASE
        WHEN aborted_count = 2147483647 THEN (
            streamhouse_internal.find_aborted_counts(
                ARRAY[topic_id], ARRAY[partition], ARRAY[aborted_count]
            )
        )[1]
        ELSE aborted_count
    END AS aborted_count
FROM streamhouse_internal.delete_records($1, $2, $3)
