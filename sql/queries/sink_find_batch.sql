-- The batch that a sink committed last; no row if it never did.
-- $1 sink_id text.
SELECT last_batch_id FROM streamhouse_internal.sink_batches
WHERE sink_id = $1 AND last_batch_id >= 0
