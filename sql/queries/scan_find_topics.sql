-- Topics with what their partitions hold now, in the order of names and partitions: a row for each
-- partition. Last stable offset: where the first open transaction begins, or the high watermark.
-- $1 names text[]; null for all there are.
SELECT
    t.topic_id, t.name, p.partition, p.log_start_offset, p.high_watermark,
    greatest(
        coalesce(p.first_unstable_offset, p.high_watermark), p.log_start_offset
    ) AS last_stable_offset,
    p.aborted_count + p.aborted_beyond AS aborted_count
FROM streamhouse_internal.topics AS t
JOIN streamhouse_internal.partitions AS p ON p.topic_id = t.topic_id
WHERE $1::text[] IS NULL OR t.name = ANY ($1::text[])
ORDER BY t.name, p.partition
