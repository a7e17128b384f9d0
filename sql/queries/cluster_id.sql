-- The id of this cluster, made once with the database.
SELECT cluster_id FROM streamhouse_internal.cluster
