-- Give up uploads whose job has failed; what was committed after all is left alone.
-- $1 path text[].
UPDATE streamhouse_internal.objects
SET state = 'doomed'
WHERE object_id = ANY (ARRAY(
    SELECT o.object_id FROM streamhouse_internal.objects AS o
    WHERE o.path = ANY ($1::text[]) AND o.state = 'pending'
    ORDER BY o.object_id  -- as others lock them: no deadlock
    FOR UPDATE
))
