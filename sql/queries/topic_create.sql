-- Create a topic and its partitions, all empty; no row if a topic has that name.
-- $1 name text, $2 partition_count int, $3 replication_factor int, $4 configs jsonb.
-- Function: migrations/0017_forgotten_producers.sql
SELECT topic_id, name, partition_count, replication_factor, configs
FROM streamhouse_internal.create_topic($1, $2, $3, $4)
