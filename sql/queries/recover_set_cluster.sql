-- Make this the database of a cluster that was there before. Topics have version 1.
-- $1 cluster_id text, or null: it keeps its own; $2 next_producer_id bigint, or what it is if that is
-- more; $3 the last generation of brokers bigint; $4 store_id text, or null.
UPDATE streamhouse_internal.cluster
SET cluster_id = coalesce($1, cluster_id), store_id = $4, metadata_version = 1,
    next_producer_id = greatest(next_producer_id, $2::bigint),
    forgotten_producer_id = greatest(next_producer_id, $2::bigint) - 1,
    broker_generation = greatest(broker_generation, $3)
RETURNING cluster_id, next_producer_id
