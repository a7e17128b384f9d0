-- Remove a task.
-- $1 kind text, $2 topic_id uuid, $3 partition int.
DELETE FROM streamhouse_internal.storage_tasks
WHERE kind = $1 AND topic_id = $2 AND partition = $3
