-- What a group committed, and, in rows of their own, for which partitions an open transaction has an
-- offset: these have no committed_offset.
-- $1 group_id text.
SELECT topic_id, partition, committed_offset, leader_epoch, metadata, false AS unstable
FROM streamhouse_internal.group_offsets
WHERE group_id = $1
UNION ALL
SELECT DISTINCT p.topic_id, p.partition, NULL::bigint, NULL::int, NULL::text, true
FROM (
    SELECT * FROM streamhouse_internal.transaction_offsets AS found
    WHERE found.group_id = $1
    OFFSET 0  -- by key: an index that is in the order of the partitions would be read as a whole
) AS p
