-- The rows of a partition that reach into a range of offsets and a time, in offset order.
-- $1 topic_id uuid, $2 partition int; $3 first offset bigint, $4 one past the last bigint;
-- $5 first timestamp_ms bigint: rows that only hold earlier records are left out; null for all times;
-- $6 most of them int.
SELECT
    s.start_offset, s.end_offset, s.byte_start, s.byte_length, s.max_timestamp_ms,
    coalesce(s.index_length, 0) AS index_length, s.inline,
    coalesce(
        (SELECT o.path FROM streamhouse_internal.objects AS o WHERE o.object_id = s.object_id),
        s.topic_id || '/' || s.partition || '@' || s.start_offset  -- it lies in the index itself
    ) AS path
FROM (
    SELECT
    FROM streamhouse_internal.partitions AS found
    WHERE found.topic_id = $1 AND found.partition = $2
    OFFSET 0  -- by key, whatever the planner thinks of the table's size
) AS p
CROSS JOIN LATERAL (
    SELECT *
    FROM streamhouse_internal.segments AS found
    WHERE found.topic_id = $1 AND found.partition = $2
        AND found.end_offset >= $3::bigint AND found.start_offset < $4::bigint
        AND ($5::bigint IS NULL OR found.max_timestamp_ms >= $5::bigint)
    ORDER BY found.end_offset
    LIMIT $6
) AS s
ORDER BY s.end_offset
