-- Reserve $1 (int) producer ids that nobody was or will be given; return the first. A server that has
-- given out none since it was started may be a standby that took over, and lagged: it leaves out more
-- than it can have missed. The ids of this cluster's place (0018) last for 65,536 starts.
UPDATE streamhouse_internal.cluster
SET next_producer_id = next_producer_id + $1::int
        + CASE ids_from_server WHEN pg_postmaster_start_time() THEN 0 ELSE 65536 END,
    ids_from_server = pg_postmaster_start_time()
RETURNING next_producer_id - $1::int
