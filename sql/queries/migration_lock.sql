-- One broker migrates at a time; the lock ends with the transaction.
SELECT pg_advisory_xact_lock(7302181454326410253)
