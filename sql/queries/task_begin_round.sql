-- Begin a round, if its time has come: one row. A time that is further away than a period is of when
-- the period was longer.
-- $1 name text, $2 period, milliseconds bigint.
INSERT INTO streamhouse_internal.storage_rounds AS r (name, next_at)
VALUES ($1, clock_timestamp() + $2::bigint * interval '1 millisecond')
ON CONFLICT (name) DO UPDATE SET next_at = clock_timestamp() + $2::bigint * interval '1 millisecond'
WHERE r.next_at <= clock_timestamp()
    OR r.next_at > clock_timestamp() + $2::bigint * interval '1 millisecond'
RETURNING r.next_at
