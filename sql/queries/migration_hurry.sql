-- Wait no longer for a table than this, to the end of the transaction.
-- $1 a duration as Postgres writes it.
SELECT set_config('lock_timeout', $1, true)
