-- Forget transactional ids that nobody uses any more; go on with next_id until it is null.
-- $1 for how long, milliseconds bigint; $2 transactional_id text, the first to look at;
-- $3 most ids to look at int.
-- Function: migrations/0007_transactions.sql
SELECT next_id, forgotten
FROM streamhouse_internal.forget_transactional_ids($1::bigint * interval '1 millisecond', $2, $3)
