-- Where each partition's log begins and ends, and where its first open transaction begins (if none is
-- open, at the end); partitions that do not exist are left out.
-- $1 topic_id uuid[], $2 partition int[]: same length.
SELECT
    w.topic_id, w.partition, p.log_start_offset, p.high_watermark,
    greatest(
        coalesce(p.first_unstable_offset, p.high_watermark), p.log_start_offset
    ) AS last_stable_offset,
    p.aborted_count + p.aborted_beyond AS aborted_count
FROM unnest($1::uuid[], $2::int[]) AS w (topic_id, partition)
CROSS JOIN LATERAL (
    SELECT *
    FROM streamhouse_internal.partitions AS found
    WHERE found.topic_id = w.topic_id AND found.partition = w.partition
    OFFSET 0  -- by key, whatever the planner thinks of the table's size
) AS p
