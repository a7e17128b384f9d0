-- Make each path a pending object; one that is there already stays as it is.
-- $1 path text[].
INSERT INTO streamhouse_internal.objects (path)
SELECT unnest($1::text[])
ON CONFLICT (path) DO NOTHING
