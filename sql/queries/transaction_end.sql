-- End the open transaction, or repeat the answer. The function tells what comes out.
-- $1 transactional_id text, $2 producer_id bigint, $3 producer_epoch int;
-- $4 committed boolean, $5 bumps_epoch boolean, $6 fences boolean, $7 overdue_only boolean;
-- $8 marker bytea, $9 its timestamp_ms bigint; $10 fresh producer_id bigint.
-- Function: migrations/0036_many_groups_and_aborts.sql
-- Function: migrations/0035_late_ends_and_many_offsets.sql
SELECT
    verdict, next_producer_id, next_producer_epoch,
    topic_ids, partitions, log_start_offsets, high_watermarks, last_stable_offsets,
    CASE
        WHEN 2147483647 = ANY (aborted_counts) THEN
            streamhouse_internal.find_aborted_counts(topic_ids, partitions, aborted_counts)
        ELSE aborted_counts
    END AS aborted_counts
FROM streamhouse_internal.end_transaction($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
