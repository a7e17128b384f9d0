-- Whether versions that do not know a migration cannot work beside it; nothing if it is there.
ALTER TABLE streamhouse_internal.migrations
ADD COLUMN IF NOT EXISTS stops_older boolean NOT NULL DEFAULT true
