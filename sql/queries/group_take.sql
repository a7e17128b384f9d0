-- Become the owner of groups; one row per group that is ours now, with null for all but its id and
-- owner_epoch if no generation of it was ever saved.
-- $1 group_id text[]: ascending, none twice; $2 create boolean: make those that do not exist.
-- Function: migrations/0029_known_and_idle.sql
SELECT
    group_id, owner_epoch, group_type, state, protocol_type, generation_id, member_count, document
FROM streamhouse_internal.take_groups($1, $2)
