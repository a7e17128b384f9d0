-- Forget states of producers that nobody wrote with for so long; go on behind next_* until it is null.
-- $1 for how long, milliseconds bigint; behind which key: $2 topic_id uuid, $3 partition int,
-- $4 producer_id bigint; $5 most states to look at int, $6 most to remove int.
-- Function: migrations/0027_ids_and_judges.sql
SELECT next_topic_id, next_partition, next_producer_id, removed
FROM streamhouse_internal.expire_producers(
    $1::bigint * interval '1 millisecond', $2, $3, $4, $5, $6
)
