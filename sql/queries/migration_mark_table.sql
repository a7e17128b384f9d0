-- Whether versions that do not know a migration cannot work beside it. If that is there, the table
-- is not taken, which a backup may be reading.
DO $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM pg_catalog.pg_attribute
        WHERE attrelid = 'streamhouse_internal.migrations'::regclass AND attname = 'stops_older'
    ) THEN
        ALTER TABLE streamhouse_internal.migrations
        ADD COLUMN stops_older boolean NOT NULL DEFAULT true;
    END IF;
END
$$
