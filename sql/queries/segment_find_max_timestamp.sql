-- The first run that holds the partition's largest timestamp (KIP-734).
-- $1 topic_id uuid, $2 partition int.
SELECT
    s.start_offset, s.end_offset, s.byte_start, s.byte_length, s.max_timestamp_ms,
    s.inline,
    coalesce(
        (SELECT o.path FROM streamhouse_internal.objects AS o WHERE o.object_id = s.object_id),
        s.topic_id || '/' || s.partition || '@' || s.start_offset  -- it lies in the index itself
    ) AS path
FROM streamhouse_internal.segments AS s
WHERE s.topic_id = $1 AND s.partition = $2
    AND s.end_offset >= (
        SELECT p.log_start_offset FROM streamhouse_internal.partitions AS p
        WHERE p.topic_id = $1 AND p.partition = $2
    )
ORDER BY s.max_timestamp_ms DESC, s.end_offset
LIMIT 1
