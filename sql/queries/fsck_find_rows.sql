-- What all rows of a partition cover, in the order of their ends.
-- $1 topic_id uuid, $2 partition int.
SELECT s.start_offset, s.end_offset, s.index_length IS NOT NULL AS is_built
FROM streamhouse_internal.segments AS s
WHERE s.topic_id = $1 AND s.partition = $2
ORDER BY s.end_offset
