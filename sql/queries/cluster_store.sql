-- The id of this cluster's object store; null if it has none yet.
SELECT store_id FROM streamhouse_internal.cluster
