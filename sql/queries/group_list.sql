-- All groups, in the order of their ids.
SELECT group_id, group_type, state, protocol_type, member_count
FROM streamhouse.groups
ORDER BY group_id
