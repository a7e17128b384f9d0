-- Those of some paths that no object has, or one that is not part of the log yet.
-- $1 path text[].
SELECT w.path
FROM unnest($1::text[]) AS w (path)
LEFT JOIN LATERAL (
    SELECT found.state
    FROM streamhouse_internal.objects AS found
    WHERE found.path = w.path
    OFFSET 0  -- by key, whatever the planner thinks of the table's size
) AS o ON true
WHERE o.state IS NULL OR o.state = 'pending'
