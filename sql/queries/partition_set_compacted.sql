-- Take note of where compaction has come to, and when; it never moves back.
-- $1 topic_id uuid, $2 partition int, $3 compacted_offset bigint.
UPDATE streamhouse_internal.partitions
SET
    compacted_offset = greatest(compacted_offset, $3),
    compacted_at = clock_timestamp(),
    cleaned_at = clock_timestamp()
WHERE topic_id = $1 AND partition = $2
