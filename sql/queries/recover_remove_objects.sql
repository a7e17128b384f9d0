-- Remove objects of which no row is to name any.
-- $1 path text[].
DELETE FROM streamhouse_internal.objects WHERE path = ANY ($1::text[])
