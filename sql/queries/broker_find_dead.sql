-- The brokers that are known and not alive.
SELECT node_id, addresses, rack
FROM streamhouse_internal.brokers
WHERE NOT live
ORDER BY node_id
