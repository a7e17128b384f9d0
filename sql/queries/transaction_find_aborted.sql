-- What aborted transactions wrote into a range of offsets, in the order of their last offsets.
-- $1 topic_id uuid, $2 partition int; $3 first offset bigint, $4 one past the last bigint;
-- $5 most of them int.
SELECT producer_id, first_offset, last_offset
FROM streamhouse_internal.find_aborted_transactions($1, $2, $3, $4, $5)
