-- Take the task of one partition, made if nobody has made it; no row if somebody has it, and its lease
-- is not over.
-- $1 kind text, $2 topic_id uuid, $3 partition int, $4 lease, milliseconds bigint.
INSERT INTO streamhouse_internal.storage_tasks AS t (kind, topic_id, partition, claimed_until)
VALUES ($1, $2, $3, clock_timestamp() + $4::bigint * interval '1 millisecond')
ON CONFLICT (kind, topic_id, partition) DO UPDATE
SET claimed_until = clock_timestamp() + $4::bigint * interval '1 millisecond',
    added_at = clock_timestamp()
WHERE t.claimed_until IS NULL OR t.claimed_until <= clock_timestamp()
RETURNING t.topic_id, t.partition
