-- Say that a broker is alive; one row per known broker, without addresses if it is dead. No row:
-- somebody else has its identity now.
-- $1 node_id int, $2 incarnation uuid, $3 generation that it knows bigint,
-- $4 time to live, milliseconds bigint.
-- Function: migrations/0027_ids_and_judges.sql
SELECT this_node_id, generation, node_id, addresses, rack
FROM streamhouse_internal.broker_heartbeat($1, $2, $3, $4::bigint * interval '1 millisecond')
