-- Let doomed objects wait whose bytes the store does not let go: as if they were doomed in a while.
-- $1 path text[]; $2 from now on, milliseconds bigint.
UPDATE streamhouse_internal.objects
SET state_at = clock_timestamp() + $2::bigint * interval '1 millisecond'
WHERE object_id = ANY (ARRAY(
    SELECT o.object_id FROM streamhouse_internal.objects AS o
    WHERE o.path = ANY ($1::text[]) AND o.state = 'doomed'
    ORDER BY o.object_id  -- as others lock them: no deadlock
    FOR UPDATE
))
