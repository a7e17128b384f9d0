-- Give up uploads whose job has failed; what was committed after all is left alone.
-- $1 path text[].
UPDATE streamhouse_internal.objects
SET state = 'doomed'
WHERE object_id = ANY (ARRAY(
    SELECT w.object_id
    FROM (
        SELECT o.object_id
        FROM unnest($1::text[]) AS g (path)
        CROSS JOIN LATERAL (
            SELECT found.object_id FROM streamhouse_internal.objects AS found
            WHERE found.path = g.path
            OFFSET 0  -- by path, however many are pending
        ) AS o
        ORDER BY o.object_id  -- locked as they are reached, as others lock them: no deadlock
        OFFSET 0
    ) AS w
    CROSS JOIN LATERAL (
        SELECT o.state FROM streamhouse_internal.objects AS o
        WHERE o.object_id = w.object_id
        OFFSET 0  -- by id, for the same reason
        FOR UPDATE
    ) AS locked
    WHERE locked.state = 'pending'
))
