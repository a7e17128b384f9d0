-- Set and unset a topic's configs; no row if there is no such topic.
-- $1 topic_id uuid, $2 changes jsonb (a string sets, null unsets), $3 replace boolean: unset all others.
SELECT topic_id, name, partition_count, replication_factor, configs
FROM streamhouse_internal.alter_topic_configs($1, $2, $3)
