-- Doom those of the objects that no row of the index names any more.
-- $1 object_id bigint[].
-- Function: migrations/0009_segments.sql
SELECT streamhouse_internal.release_objects($1)
