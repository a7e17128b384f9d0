-- The next $3 (int) partitions behind $1 topic_id uuid, $2 partition int, in the order of their keys; of
-- each, what lies between its last built segment and its high watermark: row_count (at most $4, int),
-- size of those, and age_ms of the first, all 0 where there is nothing.
SELECT
    p.topic_id, p.partition, p.built_offset, r.row_count, r.size,
    coalesce(f.age_ms, 0) AS age_ms
FROM (
    SELECT
        found.topic_id, found.partition, found.high_watermark,
        greatest(found.built_offset, found.log_start_offset) AS built_offset
    FROM streamhouse_internal.partitions AS found
    WHERE (found.topic_id, found.partition) > ($1::uuid, $2::int)
    ORDER BY found.topic_id, found.partition
    LIMIT $3
) AS p
CROSS JOIN LATERAL (
    SELECT count(*) AS row_count, coalesce(sum(n.byte_length), 0)::bigint AS size
    FROM (
        SELECT s.byte_length
        FROM streamhouse_internal.segments AS s
        WHERE s.topic_id = p.topic_id AND s.partition = p.partition
            AND s.end_offset >= p.built_offset AND p.high_watermark > p.built_offset
        ORDER BY s.end_offset
        LIMIT $4
    ) AS n
) AS r
LEFT JOIN LATERAL (
    SELECT
        greatest(
            floor(extract(epoch FROM clock_timestamp()) * 1000) - coalesce(
                (
                    SELECT floor(extract(epoch FROM coalesce(o.state_at, o.created_at)) * 1000)
                    FROM streamhouse_internal.objects AS o WHERE o.object_id = n.object_id
                ),
                n.max_timestamp_ms  -- it lies in the index itself, and was written at that time
            ),
            0
        )::bigint AS age_ms
    FROM (
        SELECT s.object_id, s.max_timestamp_ms
        FROM streamhouse_internal.segments AS s
        WHERE s.topic_id = p.topic_id AND s.partition = p.partition
            AND s.end_offset >= p.built_offset AND p.high_watermark > p.built_offset
        ORDER BY s.end_offset
        LIMIT 1
    ) AS n
) AS f ON true
ORDER BY p.topic_id, p.partition
