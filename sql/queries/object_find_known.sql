-- Those of some paths that an object has, whatever its state.
-- $1 path text[].
SELECT o.path
FROM unnest($1::text[]) AS w (path)
CROSS JOIN LATERAL (
    SELECT found.path
    FROM streamhouse_internal.objects AS found
    WHERE found.path = w.path
    OFFSET 0  -- by key, whatever the planner thinks of the table's size
) AS o
