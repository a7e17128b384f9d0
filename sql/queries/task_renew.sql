-- Let the lease of a task begin anew.
-- $1 kind text, $2 topic_id uuid, $3 partition int, $4 lease, milliseconds bigint.
UPDATE streamhouse_internal.storage_tasks
SET claimed_until = clock_timestamp() + $4::bigint * interval '1 millisecond'
WHERE kind = $1 AND topic_id = $2 AND partition = $3
