-- Make the objects of a batch part of the log, all or none. The function tells what goes in and what
-- comes out. Arrays of numbers are text: {1, 2, 3}.
-- $1 sink_id text, $2 batch_id bigint, $3 forget after, milliseconds bigint or null;
-- per object: $4 path text[], $5 size bigint[], $6 run_count int[];
-- per run: $7 topic_id uuid[], $8 partition int[], $9 batch_count int[];
-- per record batch: $10 start bigint[], $11 length bigint[], $12 record_count int[],
--   $13 max_timestamp_ms bigint[].
-- Function: migrations/0030_marked_databases.sql
SELECT verdict, named
FROM streamhouse_internal.commit_sink_batch(
    $1, $2, $3::bigint * interval '1 millisecond',
    $4, $5::text::bigint[], $6::text::int[],
    $7, $8::text::int[], $9::text::int[],
    $10::text::bigint[], $11::text::bigint[], $12::text::int[], $13::text::bigint[]
)
