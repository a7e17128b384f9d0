-- Ids of producers begin at a place of the cluster's own. A client may be led here from another cluster
-- under the same name, and go on with its id and its sequences: were the id one of those that this
-- cluster has given out, its partitions would want to see the producer's first batch (commit_object),
-- and librdkafka gives up when it hears so. Places are 2^32 ids apart and below 2^52, which is a whole
-- number in any program's JSON.
UPDATE streamhouse_internal.cluster
SET next_producer_id = greatest(
    next_producer_id, (1 + floor(random() * (2 ^ 20 - 1)))::bigint << 32
);
UPDATE streamhouse_internal.cluster SET forgotten_producer_id = next_producer_id - 1;
UPDATE streamhouse_internal.partitions AS p SET forgotten_producer_id = c.forgotten_producer_id
FROM streamhouse_internal.cluster AS c;
