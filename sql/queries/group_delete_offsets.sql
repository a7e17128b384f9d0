-- Forget offsets of a group; false if somebody else owns it, or it is gone.
-- $1 group_id text, $2 owner_epoch bigint; $3 topic_id uuid[], $4 partition int[]: same length.
-- Function: migrations/0007_transactions.sql
SELECT streamhouse_internal.delete_group_offsets($1, $2, $3, $4)
