-- How brokers have seen that this database was set back (broker/set_back.py); no row if it is not marked.
SELECT e.configs ->> 'went.back' AS reason
FROM streamhouse_internal.entity_configs AS e
WHERE e.kind = 'database' AND e.name = '' AND e.configs ? 'went.back'
