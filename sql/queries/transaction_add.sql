-- Let partitions and groups take part in a transaction, all or none; it begins if none is open.
-- $1 transactional_id text, $2 producer_id bigint, $3 producer_epoch int;
-- $4 topic_id uuid[], $5 partition int[]: same length; $6 group_id text[].
-- Function: migrations/0025_whole_additions.sql
SELECT streamhouse_internal.add_to_transaction($1, $2, $3, $4, $5, $6) AS verdict
