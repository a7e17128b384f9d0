-- Give a transactional id its next producer epoch. The function tells what comes out.
-- $1 transactional_id text, $2 timeout_ms int; $3 producer_id bigint, $4 producer_epoch int, as the
-- client has them, or null; $5 fresh producer_id bigint.
-- Function: migrations/0038_late_producers.sql
SELECT verdict, producer_id, producer_epoch
FROM streamhouse_internal.init_transactional_producer($1, $2, $3, $4, $5)
