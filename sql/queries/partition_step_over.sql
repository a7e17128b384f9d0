-- Let what is not built begin behind rows that cannot be read, if it begins within them.
-- $1 topic_id uuid, $2 partition int, $3 start_offset bigint, $4 end_offset bigint: what they cover.
-- A row if it does now.
UPDATE streamhouse_internal.partitions
SET built_offset = $4 + 1
WHERE topic_id = $1 AND partition = $2
    AND greatest(built_offset, log_start_offset) BETWEEN $3 AND $4
RETURNING built_offset
