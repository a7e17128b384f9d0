-- Join the cluster; one row per known broker, without addresses if it is dead. No row: a broker with that
-- identity is alive.
-- $1 incarnation uuid; $2 addresses text[], the first is the identity; $3 rack text or null;
-- $4 preferred node_id int; $5 alone boolean; $6 time to live, milliseconds bigint.
-- Function: migrations/0037_left_configs.sql
SELECT this_node_id, generation, node_id, addresses, rack
FROM streamhouse_internal.register_broker($1, $2, $3, $4, $5, $6::bigint * interval '1 millisecond')
