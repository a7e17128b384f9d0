-- When objects became what they are: of those that are live, when they were stored.
-- $1 path text[].
SELECT w.path, floor(extract(epoch FROM o.stored_at) * 1000)::bigint AS stored_ms
FROM unnest($1::text[]) AS w (path)
CROSS JOIN LATERAL (
    SELECT coalesce(found.state_at, found.created_at) AS stored_at
    FROM streamhouse_internal.objects AS found
    WHERE found.path = w.path
    OFFSET 0  -- by key, whatever the planner thinks of the table's size
) AS o
