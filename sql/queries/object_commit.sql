-- Make an uploaded object's batches part of the log. The function commit_object tells what goes in and
-- what comes out. Arrays are text: {1, 2, 3}.
-- $1 path text, $2 size bigint;
-- per partition: $3 topic_id uuid[], $4 partition int[], $5 batch_count int[],
--   $16 leader_epoch bigint[];
-- per batch: $6 start bigint[], $7 length bigint[], $8 record_count int[], $9 max_timestamp_ms bigint[],
--   $10 producer int[], $11 producer_epoch int[], $12 base_sequence int[];
-- per producer and partition: $13 index into $3 and $4 int[], $14 producer_id bigint[];
-- per batch: $15 transaction smallint[], $18 index into $17 int[]; $17 transactional_id text[].
-- Function: migrations/0036_many_groups_and_aborts.sql
-- Function: migrations/0017_forgotten_producers.sql
SELECT
    state, outcomes, base_offsets, log_start_offsets, last_stable_offsets,
    CASE
        WHEN 2147483647 = ANY (aborted_counts) THEN
            streamhouse_internal.find_aborted_counts($3::text::uuid[], $4::text::int[], aborted_counts)
        ELSE aborted_counts
    END AS aborted_counts
FROM streamhouse_internal.commit_object(
    $1, $2,
    $3::text::uuid[], $4::text::int[], $5::text::int[], $16::text::bigint[],
    $6::text::bigint[], $7::text::bigint[], $8::text::int[], $9::text::bigint[],
    $10::text::int[], $11::text::int[], $12::text::int[],
    $13::text::int[], $14::text::bigint[], $15::text::smallint[],
    $17::text::text[], $18::text::int[]
)
