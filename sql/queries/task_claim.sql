-- Take the oldest task that nobody has, or whose lease is over; no row if there is none. It is then the
-- youngest: one that fails every time does not stand in the way of the others.
-- $1 kind text, $2 lease, milliseconds bigint.
WITH free AS MATERIALIZED (
    SELECT f.topic_id, f.partition
    FROM streamhouse_internal.storage_tasks AS f
    WHERE f.kind = $1 AND (f.claimed_until IS NULL OR f.claimed_until <= clock_timestamp())
    ORDER BY f.added_at
    LIMIT 1
    FOR UPDATE SKIP LOCKED
)
UPDATE streamhouse_internal.storage_tasks AS t
SET claimed_until = clock_timestamp() + $2::bigint * interval '1 millisecond',
    added_at = clock_timestamp()
FROM free
WHERE t.kind = $1 AND t.topic_id = free.topic_id AND t.partition = free.partition
RETURNING t.topic_id, t.partition
