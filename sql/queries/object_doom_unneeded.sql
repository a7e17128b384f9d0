-- Doom live objects that no row of the index names; go on behind next_id until it is null.
-- $1 behind which object_id bigint; $2 at least how old, milliseconds bigint; $3 most to look at int.
-- Function: migrations/0009_segments.sql
SELECT next_id, doomed
FROM streamhouse_internal.doom_unneeded_objects($1, $2::bigint * interval '1 millisecond', $3)
