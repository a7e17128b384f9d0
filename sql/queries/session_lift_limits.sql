-- Let this session take as long as it takes, and wait for its client as long, whatever is set for the role
-- or the database: who reads a store says nothing to the server meanwhile, in a transaction or not.
SELECT set_config(s.name, '0', false)
FROM pg_catalog.pg_settings AS s
WHERE s.name IN (
    'statement_timeout', 'transaction_timeout', 'idle_in_transaction_session_timeout',
    'idle_session_timeout'
)
