-- Remove what is too old; return how many rows that were.
-- $1 older_than_ms bigint; $2 limit int: of rows.
WITH old AS (
    SELECT u.hour, u.topic_id, u.client_id
    FROM streamhouse_internal.usage AS u
    WHERE u.hour < now() - $1::bigint * interval '1 millisecond'
    ORDER BY u.hour, u.topic_id, u.client_id
    LIMIT $2::int
    FOR UPDATE SKIP LOCKED
),
gone AS (
    DELETE FROM streamhouse_internal.usage AS u
    USING old
    WHERE u.hour = old.hour AND u.topic_id = old.topic_id AND u.client_id = old.client_id
    RETURNING 1
)
SELECT count(*)::int AS row_count FROM gone
