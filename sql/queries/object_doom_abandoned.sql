-- Give up uploads that were reserved so long ago; return them. What somebody commits, or gives up, at
-- this moment is left alone.
-- $1 for how long, milliseconds bigint; $2 most of them int.
UPDATE streamhouse_internal.objects
SET state = 'doomed'
WHERE object_id = ANY (ARRAY(
    SELECT o.object_id FROM streamhouse_internal.objects AS o
    WHERE o.state = 'pending'
        AND o.created_at <= statement_timestamp() - $1::bigint * interval '1 millisecond'
    ORDER BY o.created_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
))
RETURNING object_id
