-- The snapshots that can be read, or one of them, the oldest first.
-- $1 snapshot_id text; null for all.
SELECT
    s.snapshot_id, s.created_at, s.expires_at,
    array_agg(DISTINCT c.topic ORDER BY c.topic) FILTER (WHERE c.topic IS NOT NULL) AS topics,
    count(c.topic) AS partition_count
FROM streamhouse_internal.snapshots AS s
LEFT JOIN streamhouse_internal.snapshot_partitions AS c USING (snapshot_id)
WHERE (s.expires_at IS NULL OR s.expires_at > clock_timestamp())
    AND ($1::text IS NULL OR s.snapshot_id = $1::text)
GROUP BY s.snapshot_id
ORDER BY s.created_at, s.snapshot_id
