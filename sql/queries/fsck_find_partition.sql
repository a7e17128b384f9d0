-- What is known of a partition's log; no row if the partition is gone.
-- $1 topic_id uuid, $2 partition int.
SELECT t.name, p.log_start_offset, p.high_watermark, p.built_offset
FROM streamhouse_internal.partitions AS p
JOIN streamhouse_internal.topics AS t USING (topic_id)
WHERE p.topic_id = $1 AND p.partition = $2
