-- Objects that were doomed so long ago, first those that it is longest; but none that somebody else is
-- looking at. They are locked for the reason given at commit_object: then that they are doomed is as
-- durable as the server is told to make it, and their bytes may go.
-- $1 for how long, milliseconds bigint; $2 most of them int.
SELECT path
FROM streamhouse_internal.objects
WHERE state = 'doomed'
    AND state_at <= statement_timestamp() - $1::bigint * interval '1 millisecond'
ORDER BY state_at
LIMIT $2
FOR UPDATE SKIP LOCKED
