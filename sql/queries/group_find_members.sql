-- How many members a group had when its coordinator last saved it; no row if there is no such group.
-- $1 group_id text.
SELECT coalesce(g.member_count, 0) AS member_count
FROM streamhouse_internal.groups AS g
WHERE g.group_id = $1
