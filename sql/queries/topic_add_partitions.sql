-- Raise a topic's partition count; no row if there is no such topic, grown is false (and the rest
-- null) if it has that many partitions already.
-- $1 topic_id uuid, $2 partition_count int.
-- Function: migrations/0017_forgotten_producers.sql
SELECT
    grown, (topic).topic_id, (topic).name, (topic).partition_count, (topic).replication_factor,
    (topic).configs
FROM streamhouse_internal.add_partitions($1, $2)
