-- Where each partition's log begins and ends; partitions that do not exist are left out.
-- $1 topic_id uuid[], $2 partition int[]: same length.
SELECT w.topic_id, w.partition, p.log_start_offset, p.high_watermark
FROM unnest($1::uuid[], $2::int[]) AS w (topic_id, partition)
CROSS JOIN LATERAL (
    SELECT *
    FROM streamhouse_internal.partitions AS found
    WHERE found.topic_id = w.topic_id AND found.partition = w.partition
    OFFSET 0  -- by key, whatever the planner thinks of the table's size
) AS p
