-- Take note of where compaction has come to, and when; neither ever moves back, unless that time lies in the
-- future: then the clock was ahead.
-- $1 topic_id uuid, $2 partition int, $3 compacted_offset bigint; $4 cleaned_ms bigint: nothing that is
-- behind that was written before, null if that is not known.
UPDATE streamhouse_internal.partitions
SET
    compacted_offset = greatest(compacted_offset, $3),
    compacted_at = clock_timestamp(),
    cleaned_at = CASE
        WHEN cleaned_at IS NOT NULL OR $4::bigint IS NOT NULL
        THEN least(greatest(cleaned_at, to_timestamp($4::bigint / 1000.0)), clock_timestamp())
    END
WHERE topic_id = $1 AND partition = $2
