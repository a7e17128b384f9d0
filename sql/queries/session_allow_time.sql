-- Let the statements of this transaction take longer than others.
-- $1 statement_timeout text with units.
SELECT set_config('statement_timeout', $1, true)
