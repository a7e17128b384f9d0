-- The first run, in offset order, whose largest timestamp is at least $3, and that ends at $4 or later.
-- $1 topic_id uuid, $2 partition int, $3 timestamp_ms bigint, $4 start_offset bigint.
SELECT
    s.start_offset, s.end_offset, s.byte_start, s.byte_length, s.max_timestamp_ms,
    coalesce(s.index_length, 0) AS index_length, s.inline,
    coalesce(
        (SELECT o.path FROM streamhouse_internal.objects AS o WHERE o.object_id = s.object_id),
        s.topic_id || '/' || s.partition || '@' || s.start_offset  -- it lies in the index itself
    ) AS path
FROM (
    SELECT found.log_start_offset
    FROM streamhouse_internal.partitions AS found
    WHERE found.topic_id = $1 AND found.partition = $2
    OFFSET 0  -- by key, whatever the planner thinks of the table's size
) AS p
CROSS JOIN LATERAL (  -- many are passed over, so only what the key holds is looked at
    SELECT found.end_offset
    FROM streamhouse_internal.segments AS found
    WHERE found.topic_id = $1 AND found.partition = $2
        AND found.end_offset >= greatest($4::bigint, p.log_start_offset)
        AND found.max_timestamp_ms >= $3
    ORDER BY found.end_offset
    LIMIT 1
) AS n
CROSS JOIN LATERAL (
    SELECT *
    FROM streamhouse_internal.segments AS found
    WHERE found.topic_id = $1 AND found.partition = $2 AND found.end_offset = n.end_offset
    OFFSET 0
) AS s
