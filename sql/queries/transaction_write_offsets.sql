-- Keep offsets that a group has committed once the transaction is. The function tells what comes out.
-- $1 transactional_id text, $2 producer_id bigint, $3 producer_epoch int;
-- $4 group_id text, $5 owner_epoch bigint, $6 joins boolean;
-- per offset: $7 topic_id uuid[], $8 partition int[], $9 offset bigint[], $10 leader_epoch int[],
--   $11 metadata text[].
-- Function: migrations/0035_late_ends_and_many_offsets.sql
SELECT verdict, unknown
FROM streamhouse_internal.write_transaction_offsets($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
