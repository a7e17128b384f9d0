-- Reserve a path for a segment that is about to be built; null if the partition is gone.
-- $1 topic_id uuid, $2 partition int, $3 first offset bigint, $4 last offset bigint.
-- Function: migrations/0032_folder_names.sql
SELECT streamhouse_internal.reserve_segment($1, $2, $3, $4) AS path
