-- How many bytes of batches each partition's log has, from its start on; partitions that do not exist
-- are left out. The key answers it, so rows that were vacuumed are not looked at.
-- $1 topic_id uuid[], $2 partition int[]: same length.
SELECT w.topic_id, w.partition, r.size
FROM unnest($1::uuid[], $2::int[]) AS w (topic_id, partition)
CROSS JOIN LATERAL (
    SELECT found.log_start_offset
    FROM streamhouse_internal.partitions AS found
    WHERE found.topic_id = w.topic_id AND found.partition = w.partition
    OFFSET 0  -- by key, whatever the planner thinks of the table's size
) AS p
CROSS JOIN LATERAL (
    SELECT coalesce(sum(s.byte_length), 0)::bigint AS size
    FROM (
        SELECT found.byte_length
        FROM streamhouse_internal.segments AS found
        WHERE found.topic_id = w.topic_id AND found.partition = w.partition
            AND found.end_offset >= p.log_start_offset
        OFFSET 0
    ) AS s
) AS r
