-- What a group committed.
-- $1 group_id text.
SELECT topic_id, partition, committed_offset, leader_epoch, metadata
FROM streamhouse_internal.group_offsets
WHERE group_id = $1
