-- Set and unset configs of entities, all at once; no row if one of them is not as expected.
-- Per entity, no two the same: $1 kind text[], $2 name text[], $3 changes jsonb[] (a string sets, null
-- unsets), $4 replace boolean[]: unset all others, $5 expected jsonb[]: all that has to be set as yet, or
-- null for whatever is.
-- Function: migrations/0034_many_entity_configs.sql
SELECT kind, name, configs
FROM streamhouse_internal.alter_entity_configs($1, $2, $3, $4, $5)
