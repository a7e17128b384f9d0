-- Set and unset a topic's configs; no row if there is no such topic, altered is false if it is not as
-- expected.
-- $1 topic_id uuid, $2 changes jsonb (a string sets, null unsets), $3 replace boolean: unset all others,
-- $4 expected jsonb: all that has to be set as yet, or null for whatever is.
-- Function: migrations/0024_unchanged_configs.sql
SELECT
    altered, (topic).topic_id, (topic).name, (topic).partition_count, (topic).replication_factor,
    (topic).configs
FROM streamhouse_internal.alter_topic_configs($1, $2, $3, $4)
