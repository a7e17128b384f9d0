-- Remove what is left of one deleted topic; any_left is false if there is none.
-- $1 most rows int.
-- released: ids of objects that rows were of, for object_release.
-- Function: migrations/0009_segments.sql
SELECT any_left, removed, released FROM streamhouse_internal.purge_topic($1)
