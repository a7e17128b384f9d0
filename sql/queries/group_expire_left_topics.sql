-- Forget offsets of topics that the members of a group have left; how many went.
-- $1 group_id text, $2 owner_epoch bigint; $3 names of topics that the members read text[];
-- $4 retention, milliseconds bigint.
-- Function: migrations/0033_left_topics_by_name.sql
SELECT streamhouse_internal.expire_left_topics($1, $2, $3, $4::bigint * interval '1 millisecond')
