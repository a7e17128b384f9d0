-- Add objects of which it is not known yet whether a row names them; return their ids.
-- $1 path text[], $2 size bigint[]: same length.
INSERT INTO streamhouse_internal.objects (path, size)
SELECT * FROM unnest($1::text[], $2::bigint[])
RETURNING object_id, path
