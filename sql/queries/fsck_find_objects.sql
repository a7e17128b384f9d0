-- Objects in the order of their paths, and what rows ask of them: how many rows, the byte at which the
-- last one ends with its index, and whether one of them is a built segment.
-- $1 first path text, $2 before which path text, $3 most of them int.
SELECT
    o.path, o.state, o.size,
    (extract(epoch FROM clock_timestamp() - coalesce(o.state_at, o.created_at)) * 1000)::bigint
        AS age_ms,
    r.row_count, r.end_byte, r.is_built
FROM (
    SELECT *
    FROM streamhouse_internal.objects AS found
    WHERE found.path >= $1::text AND found.path < $2::text
    ORDER BY found.path
    LIMIT $3
) AS o
CROSS JOIN LATERAL (
    SELECT
        count(*) AS row_count,
        coalesce(max(s.byte_start + s.byte_length + coalesce(s.index_length, 0)), 0) AS end_byte,
        coalesce(bool_or(s.index_length IS NOT NULL), false) AS is_built
    FROM streamhouse_internal.segments AS s
    WHERE s.object_id = o.object_id
) AS r
ORDER BY o.path
