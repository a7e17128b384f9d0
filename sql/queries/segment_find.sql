-- For each lookup the runs from the one that holds its offset on, in offset order, until their lengths
-- add up to max_bytes; at least one, at most $5.
-- $1 topic_id uuid[], $2 partition int[], $3 offset bigint[], $4 max_bytes bigint[]: same length;
-- $5 max_rows int, of each lookup. lookup is the index (from 1) of the question that a row answers.
SELECT
    w.lookup, r.start_offset, r.end_offset, r.byte_start, r.byte_length, r.max_timestamp_ms,
    coalesce(r.index_length, 0) AS index_length, r.inline,
    coalesce(
        (SELECT o.path FROM streamhouse_internal.objects AS o WHERE o.object_id = r.object_id),
        w.topic_id || '/' || w.partition || '@' || r.start_offset  -- it lies in the index itself
    ) AS path
FROM unnest($1::uuid[], $2::int[], $3::bigint[], $4::bigint[])
    WITH ORDINALITY AS w (topic_id, partition, wanted_offset, max_bytes, lookup)
CROSS JOIN LATERAL (
    SELECT found.log_start_offset
    FROM streamhouse_internal.partitions AS found
    WHERE found.topic_id = w.topic_id AND found.partition = w.partition
    OFFSET 0  -- by key, whatever the planner thinks of the table's size
) AS p
CROSS JOIN LATERAL (
    SELECT
        n.*,
        sum(n.byte_length) OVER (ORDER BY n.end_offset) - n.byte_length AS bytes_before
    FROM (
        SELECT s.*
        FROM streamhouse_internal.segments AS s
        WHERE s.topic_id = w.topic_id AND s.partition = w.partition
            AND s.end_offset >= greatest(w.wanted_offset, p.log_start_offset)
        ORDER BY s.end_offset
        LIMIT $5
    ) AS n
) AS r
WHERE r.bytes_before < greatest(w.max_bytes, 1)
ORDER BY w.lookup, r.end_offset
