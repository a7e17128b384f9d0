-- Remove doomed objects whose bytes are gone.
-- $1 path text[].
DELETE FROM streamhouse_internal.objects
WHERE object_id = ANY (ARRAY(
    SELECT o.object_id FROM streamhouse_internal.objects AS o
    WHERE o.path = ANY ($1::text[]) AND o.state = 'doomed'
    ORDER BY o.object_id  -- as others lock them: no deadlock
    FOR UPDATE
))
