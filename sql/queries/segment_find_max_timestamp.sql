-- The first run that holds the largest timestamp of those that end at $3 or later (KIP-734).
-- $1 topic_id uuid, $2 partition int, $3 start_offset bigint.
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
CROSS JOIN LATERAL (  -- all are looked at, so only what the key holds
    SELECT found.end_offset
    FROM streamhouse_internal.segments AS found
    WHERE found.topic_id = $1 AND found.partition = $2
        AND found.end_offset >= greatest($3::bigint, p.log_start_offset)
    ORDER BY found.max_timestamp_ms DESC, found.end_offset
    LIMIT 1
) AS n
CROSS JOIN LATERAL (
    SELECT *
    FROM streamhouse_internal.segments AS found
    WHERE found.topic_id = $1 AND found.partition = $2 AND found.end_offset = n.end_offset
    OFFSET 0
) AS s
