-- Leave the cluster; one row per known broker, without addresses if it is dead, or
-- one with null for a node_id.
-- $1 node_id int, $2 incarnation uuid.
-- Function: migrations/0005_brokers.sql
SELECT this_node_id, generation, node_id, addresses, rack
FROM streamhouse_internal.deregister_broker($1, $2)
