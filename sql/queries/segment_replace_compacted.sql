-- As segment_replace, for an object that has not all records of the rows: it is noted when that was.
-- $1 topic_id uuid, $2 partition int; $3 path text, $4 size bigint, of the object;
-- the rows: $5 start_offset bigint[], $6 end_offset bigint[], $7 path text[], $8 byte_start bigint[],
-- $9 byte_length bigint[], $10 index_length int[];
-- in the object: $11 byte_start bigint, $12 byte_length bigint, $13 index_length int,
-- $14 max_timestamp_ms bigint.
-- released: ids of objects that rows were of, for object_release.
-- Function: migrations/0015_compacted_swaps.sql
SELECT replaced, released
FROM streamhouse_internal.replace_compacted_segments(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14
)
