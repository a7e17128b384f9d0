-- The first run, in offset order, whose largest timestamp is at least $3, and that ends at $4 or later.
-- $1 topic_id uuid, $2 partition int, $3 timestamp_ms bigint, $4 start_offset bigint.
SELECT
    s.start_offset, s.end_offset, s.byte_start, s.byte_length, s.max_timestamp_ms,
    s.inline,
    coalesce(
        (SELECT o.path FROM streamhouse_internal.objects AS o WHERE o.object_id = s.object_id),
        s.topic_id || '/' || s.partition || '@' || s.start_offset  -- it lies in the index itself
    ) AS path
FROM streamhouse_internal.segments AS s
WHERE s.topic_id = $1 AND s.partition = $2
    AND s.end_offset >= greatest($4::bigint, (
        SELECT p.log_start_offset FROM streamhouse_internal.partitions AS p
        WHERE p.topic_id = $1 AND p.partition = $2
    ))
    AND s.max_timestamp_ms >= $3
ORDER BY s.end_offset
LIMIT 1
