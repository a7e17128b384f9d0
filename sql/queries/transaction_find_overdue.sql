-- Whose transactions are past their deadline, those that are it longest first.
-- $1 most of them int.
SELECT transactional_id, producer_id, producer_epoch
FROM streamhouse_internal.transactions
WHERE state = 'Ongoing' AND expires_at <= now()
ORDER BY expires_at
LIMIT $1
