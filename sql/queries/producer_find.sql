-- The idempotent producers of partitions, by producer id, those after one of each; a partition without
-- any has one row, with nulls; those that do not exist are left out. transaction_start_offset is null
-- where none is open.
-- $1 topic_id uuid[], $2 partition int[], $3 producer_id bigint[]: same length; the producers that come
-- after it are meant. $4 how many at most of each partition: there may be as many as wrote in a day.
SELECT
    w.topic_id, w.partition, s.producer_id, s.producer_epoch, s.last_sequence,
    floor(extract(epoch FROM s.updated_at) * 1000)::bigint AS last_timestamp_ms,
    t.first_offset AS transaction_start_offset
FROM unnest($1::uuid[], $2::int[], $3::bigint[])
    WITH ORDINALITY AS w (topic_id, partition, after_producer_id, i)
CROSS JOIN LATERAL (
    SELECT
    FROM streamhouse_internal.partitions AS found
    WHERE found.topic_id = w.topic_id AND found.partition = w.partition
    OFFSET 0  -- by key, whatever the planner thinks of the table's size
) AS p
LEFT JOIN LATERAL (
    SELECT *
    FROM streamhouse_internal.producers AS found
    WHERE found.topic_id = w.topic_id AND found.partition = w.partition
        AND found.producer_id > w.after_producer_id
    ORDER BY found.producer_id
    LIMIT $4::int
) AS s ON true
LEFT JOIN LATERAL (
    SELECT found.first_offset
    FROM streamhouse_internal.transaction_partitions AS found
    WHERE found.producer_id = s.producer_id AND found.topic_id = w.topic_id
        AND found.partition = w.partition
    OFFSET 0
) AS t ON true
ORDER BY w.i, s.producer_id
