-- Which transactional id has a producer id now.
-- $1 producer_id bigint.
SELECT transactional_id
FROM streamhouse_internal.transactions
WHERE producer_id = $1
