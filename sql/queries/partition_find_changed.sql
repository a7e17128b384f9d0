-- Which partitions begin or end elsewhere than they are known to (partition_find_offsets.sql tells
-- more); one that does not exist has no offsets.
-- $1 topic_id uuid[], $2 partition int[], and as known $3 log_start_offset, $4 high_watermark,
-- $5 last_stable_offset, $6 aborted_count, all bigint[]: same length.
SELECT
    w.topic_id, w.partition,
    p.log_start_offset, p.high_watermark, p.last_stable_offset, p.aborted_count
FROM
    unnest($1::uuid[], $2::int[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[])
    AS w (
        topic_id, partition,
        log_start_offset, high_watermark, last_stable_offset, aborted_count
    )
LEFT JOIN LATERAL (
    SELECT
        found.log_start_offset, found.high_watermark,
        greatest(
            coalesce(found.first_unstable_offset, found.high_watermark), found.log_start_offset
        ) AS last_stable_offset,
        found.aborted_count + found.aborted_beyond AS aborted_count
    FROM streamhouse_internal.partitions AS found
    WHERE found.topic_id = w.topic_id AND found.partition = w.partition
    OFFSET 0  -- by key, whatever the planner thinks of the table's size
) AS p ON true
WHERE
    (p.log_start_offset, p.high_watermark, p.last_stable_offset, p.aborted_count)
    IS DISTINCT FROM
    (w.log_start_offset, w.high_watermark, w.last_stable_offset, w.aborted_count)
