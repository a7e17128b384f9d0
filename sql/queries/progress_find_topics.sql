-- Where each partition begins and ends; a row for each topic, in the order of names and partitions.
-- $1 limit int: partitions.
SELECT
    n.topic,
    array_agg(n.partition ORDER BY n.partition) AS partitions,
    array_agg(n.log_start_offset ORDER BY n.partition) AS log_start_offsets,
    array_agg(n.high_watermark ORDER BY n.partition) AS high_watermarks
FROM (
    SELECT t.name AS topic, p.partition, p.log_start_offset, p.high_watermark
    FROM streamhouse_internal.topics AS t
    JOIN streamhouse_internal.partitions AS p ON p.topic_id = t.topic_id
    ORDER BY t.name, p.partition
    LIMIT $1::int
) AS n
GROUP BY n.topic
ORDER BY n.topic
