-- Remove a group and its offsets; false if somebody else owns it, or it is gone.
-- $1 group_id text, $2 owner_epoch bigint.
-- Function: migrations/0007_transactions.sql
SELECT streamhouse_internal.delete_group($1, $2)
