-- Let each partition have something done to it; one that waits for it already is left as is.
-- $1 kind text; $2 topic_id uuid[], $3 partition int[]: same length, ascending.
INSERT INTO streamhouse_internal.storage_tasks (kind, topic_id, partition)
SELECT $1, w.topic_id, w.partition
FROM unnest($2::uuid[], $3::int[]) AS w (topic_id, partition)
ON CONFLICT (kind, topic_id, partition) DO NOTHING
