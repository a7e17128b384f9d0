-- Groups in the order of their ids, from one on.
-- $1 the first that may be listed; '' is before all, $2 how many at most.
SELECT group_id, group_type, state, protocol_type, member_count
FROM streamhouse.groups
WHERE group_id >= $1
ORDER BY group_id
LIMIT $2
