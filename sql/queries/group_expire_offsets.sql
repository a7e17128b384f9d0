-- Forget offsets and groups that have had their time; go on with next_group until it is null.
-- $1 retention, milliseconds bigint; $2 group_id text, the first to look at;
-- $3 most groups to look at int, $4 most offsets to forget int.
-- Function: migrations/0007_transactions.sql
SELECT next_group, offset_count, group_count
FROM streamhouse_internal.expire_group_offsets(
    $1::bigint * interval '1 millisecond', $2, $3, $4
)
