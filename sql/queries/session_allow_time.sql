-- Let the statements of this session take so long from now on.
-- $1 statement_timeout text with units.
SELECT set_config('statement_timeout', $1, false)
