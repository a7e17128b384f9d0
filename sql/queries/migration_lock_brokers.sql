-- Let no broker be registered to the end of the transaction; whoever is about to be is waited for.
SELECT FROM streamhouse_internal.cluster FOR UPDATE
