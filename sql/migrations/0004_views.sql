-- What people may look at. The columns are a promise; the tables behind them are not.

CREATE VIEW streamhouse.topics AS
SELECT topic_id, name, partition_count, replication_factor, configs
FROM streamhouse_internal.topics;

CREATE VIEW streamhouse.partitions AS
SELECT
    t.name AS topic, p.partition, p.log_start_offset, p.high_watermark,
    p.high_watermark - p.log_start_offset AS record_count, p.topic_id
FROM streamhouse_internal.partitions AS p
JOIN streamhouse_internal.topics AS t USING (topic_id);

CREATE VIEW streamhouse.segments AS
SELECT
    t.name AS topic, s.partition, s.start_offset, s.end_offset, o.path, s.byte_start, s.byte_length,
    s.max_timestamp_ms, s.topic_id
FROM streamhouse_internal.segments AS s
JOIN streamhouse_internal.topics AS t USING (topic_id)
JOIN streamhouse_internal.objects AS o USING (object_id);

COMMENT ON SCHEMA streamhouse IS 'Read-only views of the log, for people and jobs';
COMMENT ON SCHEMA streamhouse_internal IS 'Belongs to the brokers; change nothing here by hand';
COMMENT ON VIEW streamhouse.topics IS 'One row per topic; configs holds what was set explicitly';
COMMENT ON VIEW streamhouse.partitions IS 'Where each log begins and ends; high_watermark is exclusive';
COMMENT ON VIEW streamhouse.segments IS 'Which bytes of which object hold which offsets (inclusive)';
