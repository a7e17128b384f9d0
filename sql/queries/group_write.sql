-- Save records and commit offsets of several groups. The function tells what goes in and what comes
-- out. Arrays of numbers are text: {1, 2, 3}.
-- per group: $1 group_id text[], $2 owner_epoch bigint[], and its record, if any: $3 group_type text[],
--   $4 state text[], $5 protocol_type text[], $6 generation_id int[], $7 member_count int[],
--   $8 document text[];
-- $9 topic_id uuid[]; $10 metadata text[];
-- per offset: $11 index into $1 int[], $12 index into $9 int[], $13 partition int[], $14 offset bigint[],
--   $15 leader_epoch int[], $16 index into $10 int[].
-- Function: migrations/0006_groups.sql
SELECT fenced, unknown
FROM streamhouse_internal.write_groups(
    $1, $2::text::bigint[],
    $3, $4, $5, $6::text::int[], $7::text::int[], $8,
    $9, $10,
    $11::text::int[], $12::text::int[], $13::text::int[], $14::text::bigint[],
    $15::text::int[], $16::text::int[]
)
