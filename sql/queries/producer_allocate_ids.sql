-- Reserve $1 (int) producer ids that nobody was or will be given; return the first.
UPDATE streamhouse_internal.cluster SET next_producer_id = next_producer_id + $1::int
RETURNING next_producer_id - $1::int
