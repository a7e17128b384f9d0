-- The partitions of a snapshot that has not expired, by topic and partition, and what has become of
-- them; the function tells more.
-- $1 snapshot_id text.
-- Function: migrations/0014_snapshots.sql
SELECT topic, partition, topic_id, log_start_offset, high_watermark, first_offset, compacted
FROM streamhouse_internal.find_snapshot_partitions($1)
