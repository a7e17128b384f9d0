-- Partitions in key order, behind one of them.
-- $1 topic_id uuid, $2 partition int, $3 most of them int.
SELECT p.topic_id, p.partition
FROM streamhouse_internal.partitions AS p
WHERE (p.topic_id, p.partition) > ($1::uuid, $2::int)
ORDER BY p.topic_id, p.partition
LIMIT $3
