-- How far each group has come; a row for each group and topic, in the order of names and partitions.
-- $1 limit int: committed offsets.
SELECT
    n.group_id, n.topic,
    array_agg(n.partition ORDER BY n.partition) AS partitions,
    array_agg(n.committed_offset ORDER BY n.partition) AS committed_offsets,
    array_agg(n.lag ORDER BY n.partition) AS lags,
    array_agg(coalesce(s.max_timestamp_ms, -1) ORDER BY n.partition) AS unread_since_ms
FROM (
    SELECT
        o.group_id, t.name AS topic, o.partition, o.committed_offset, p.topic_id,
        greatest(o.committed_offset, p.log_start_offset) AS first_offset,
        greatest(p.high_watermark - greatest(o.committed_offset, p.log_start_offset), 0) AS lag
    FROM streamhouse_internal.group_offsets AS o
    JOIN streamhouse_internal.topics AS t ON t.topic_id = o.topic_id
    JOIN streamhouse_internal.partitions AS p
        ON p.topic_id = o.topic_id AND p.partition = o.partition
    ORDER BY o.group_id, t.name, o.partition
    LIMIT $1::int
) AS n
LEFT JOIN LATERAL (  -- one descent of the key, which holds all of it
    SELECT found.max_timestamp_ms
    FROM streamhouse_internal.segments AS found
    WHERE n.lag > 0 AND found.topic_id = n.topic_id AND found.partition = n.partition
        AND found.end_offset >= n.first_offset
    ORDER BY found.end_offset
    LIMIT 1
) AS s ON true
GROUP BY n.group_id, n.topic
ORDER BY n.group_id, n.topic
