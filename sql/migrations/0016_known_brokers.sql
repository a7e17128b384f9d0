-- Brokers are told who is known and not alive, too: such a broker keeps its share of the partitions of
-- each topic, which others lead only until it is back (broker/leaders.py).

-- The known brokers, and the generation of that set: one statement, so both are of one moment. Those
-- that are not alive have no addresses.
CREATE OR REPLACE FUNCTION streamhouse_internal.live_brokers(p_node_id int)
RETURNS TABLE (this_node_id int, generation bigint, node_id int, addresses text[], rack text)
LANGUAGE sql STABLE
AS $function$
    SELECT p_node_id, c.broker_generation, b.node_id,
        CASE WHEN b.live THEN b.addresses ELSE '{}' END, b.rack
    FROM streamhouse_internal.cluster AS c
    LEFT JOIN streamhouse_internal.brokers AS b ON true
    ORDER BY b.node_id;
$function$;
