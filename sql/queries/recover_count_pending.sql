-- How many objects no row names.
SELECT count(*) AS objects FROM streamhouse_internal.objects WHERE state = 'pending'
