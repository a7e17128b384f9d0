-- What a group committed of some partitions; those that it has none of are left out.
-- $1 group_id text; $2 topic_id uuid[], $3 partition int[]: same length.
SELECT o.topic_id, o.partition, o.committed_offset, o.leader_epoch, o.metadata
FROM unnest($2::uuid[], $3::int[]) AS w (topic_id, partition)
CROSS JOIN LATERAL (
    SELECT *
    FROM streamhouse_internal.group_offsets AS found
    WHERE found.group_id = $1 AND found.topic_id = w.topic_id AND found.partition = w.partition
    OFFSET 0  -- by key, whatever the planner thinks of the table's size
) AS o
