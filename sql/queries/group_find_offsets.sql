-- What a group committed of some partitions, and for which of them an open transaction has an offset;
-- those that it has neither of are left out. committed_offset is null where it has only that.
-- $1 group_id text; $2 topic_id uuid[], $3 partition int[]: same length.
SELECT
    w.topic_id, w.partition, o.committed_offset, o.leader_epoch, o.metadata,
    pending.found IS NOT NULL AS unstable
FROM unnest($2::uuid[], $3::int[]) AS w (topic_id, partition)
LEFT JOIN LATERAL (
    SELECT *
    FROM streamhouse_internal.group_offsets AS found
    WHERE found.group_id = $1 AND found.topic_id = w.topic_id AND found.partition = w.partition
    OFFSET 0  -- by key, whatever the planner thinks of the table's size
) AS o ON true
LEFT JOIN LATERAL (
    SELECT true AS found
    FROM streamhouse_internal.transaction_offsets AS t
    WHERE t.group_id = $1 AND t.topic_id = w.topic_id AND t.partition = w.partition
    LIMIT 1
) AS pending ON true
WHERE o.committed_offset IS NOT NULL OR pending.found
