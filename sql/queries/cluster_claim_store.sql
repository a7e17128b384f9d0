-- Make an object store this cluster's, unless it has one; return the id of the one that it has.
-- $1 store_id text.
UPDATE streamhouse_internal.cluster SET store_id = coalesce(store_id, $1)
RETURNING store_id
