-- Let this transaction wait longer for its client than others.
-- $1 idle_in_transaction_session_timeout text with units.
SELECT set_config('idle_in_transaction_session_timeout', $1, true)
