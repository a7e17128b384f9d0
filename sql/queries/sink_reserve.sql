-- Make a path a pending object of a job that commits only when all of it is done: the sweeper's time
-- for uploads that nobody commits begins so much later.
-- $1 path text; $2 how much later, milliseconds bigint.
INSERT INTO streamhouse_internal.objects (path, created_at)
VALUES ($1, clock_timestamp() + $2::bigint * interval '1 millisecond')
ON CONFLICT (path) DO NOTHING
