-- Remove a topic, its partitions and their index; false if there is no such topic.
-- $1 topic_id uuid.
-- Function: migrations/0019_locked_groups.sql
SELECT streamhouse_internal.delete_topic($1)
