-- The snapshots that can be read, or one of them, the oldest first. It reads all of their partitions.
-- $1 snapshot_id text; null for all.
SELECT s.snapshot_id, s.created_at, s.expires_at, n.topics, n.partition_count
FROM streamhouse_internal.snapshots AS s
CROSS JOIN LATERAL (
    SELECT array_agg(t.topic ORDER BY t.topic) AS topics,
        coalesce(sum(t.partition_count), 0)::bigint AS partition_count
    FROM (  -- in the order of the key: only topics have to be sorted, not their partitions
        SELECT c.topic, count(*) AS partition_count
        FROM streamhouse_internal.snapshot_partitions AS c
        WHERE c.snapshot_id = s.snapshot_id
        GROUP BY c.topic
        OFFSET 0
    ) AS t
) AS n
WHERE (s.expires_at IS NULL OR s.expires_at > clock_timestamp())
    AND ($1::text IS NULL OR s.snapshot_id = $1::text)
ORDER BY s.created_at, s.snapshot_id
