-- Remove groups and their offsets; a row for each that was dealt with: deleted is false if somebody else
-- owns it, or it is gone. The first always is, others if nobody holds them just now.
-- $1 group_id text[], $2 owner_epoch bigint[]: same length, none twice; $3 most offsets int: when so many
-- are gone, the groups that follow are left.
-- Function: migrations/0036_many_groups_and_aborts.sql
SELECT group_id, deleted FROM streamhouse_internal.delete_groups($1, $2, $3)
