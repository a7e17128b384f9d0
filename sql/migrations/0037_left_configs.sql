-- A node id is given again once its broker is forgotten, and what was set of it while the cluster ran was
-- meant for that broker. So it goes when another one gets the id; the same one finds it when it is back,
-- though it may not have been known for a while.

-- Who had each node id last, as far as that is known.
CREATE TABLE streamhouse_internal.node_identities (
    node_id int PRIMARY KEY,
    identity text COLLATE "C" NOT NULL
);

INSERT INTO streamhouse_internal.node_identities (node_id, identity)
SELECT node_id, identity FROM streamhouse_internal.brokers;

-- Join the cluster. No row: a broker with that identity is alive. A known identity keeps its node id, and
-- gets it back while it is free; a new one gets the first free id from p_preferred on. p_alone: no other broker can be alive, whatever its
-- heartbeat says. Nobody else is called dead here: if all heartbeats are old, it may be this database
-- that was away. What was set of a node id is gone when another identity gets it.
CREATE OR REPLACE FUNCTION streamhouse_internal.register_broker(
    p_incarnation uuid, p_addresses text[], p_rack text, p_preferred int, p_alone boolean,
    p_time_to_live interval
)
RETURNS TABLE (this_node_id int, generation bigint, node_id int, addresses text[], rack text)
LANGUAGE plpgsql VOLATILE
AS $function$
DECLARE
    mine int;
    identity_before text;
    right_now timestamptz;
BEGIN
    PERFORM FROM streamhouse_internal.cluster FOR UPDATE;
    right_now := clock_timestamp();
    IF NOT p_alone AND EXISTS (
        SELECT FROM streamhouse_internal.brokers AS b
        WHERE b.identity = p_addresses[1] AND b.incarnation <> p_incarnation AND b.live
            AND streamhouse_internal.is_recent(b.heartbeat_at, right_now, p_time_to_live)
            AND EXISTS (SELECT FROM pg_catalog.pg_stat_activity AS s WHERE s.pid = b.session_pid)
    ) THEN
        RETURN;
    END IF;
    UPDATE streamhouse_internal.brokers AS b SET live = false WHERE b.live AND p_alone;
    DELETE FROM streamhouse_internal.brokers AS b
    WHERE NOT b.live AND b.heartbeat_at < right_now - interval '1 day'
        AND b.identity <> p_addresses[1];
    DELETE FROM streamhouse_internal.brokers AS b
    WHERE b.node_id = ANY (ARRAY(
        SELECT d.node_id FROM streamhouse_internal.brokers AS d
        WHERE NOT d.live AND d.identity <> p_addresses[1]
        ORDER BY
            d.heartbeat_at - d.returned_at < interval '10 minutes', d.heartbeat_at DESC, d.node_id
        OFFSET greatest(
            50, (SELECT count(*) FROM streamhouse_internal.brokers AS l WHERE l.live)
        )
    ));
    SELECT b.node_id INTO mine FROM streamhouse_internal.brokers AS b
    WHERE b.identity = p_addresses[1];
    IF mine IS NULL THEN
        SELECT min(i.node_id) INTO mine FROM streamhouse_internal.node_identities AS i
        WHERE i.identity = p_addresses[1]
            AND NOT EXISTS (SELECT FROM streamhouse_internal.brokers AS b WHERE b.node_id = i.node_id);
    END IF;
    IF mine IS NULL THEN
        SELECT min(n) INTO mine
        FROM generate_series(
            p_preferred, p_preferred + (SELECT count(*) FROM streamhouse_internal.brokers)
        ) AS n
        WHERE NOT EXISTS (SELECT FROM streamhouse_internal.brokers AS b WHERE b.node_id = n);
    END IF;
    INSERT INTO streamhouse_internal.brokers AS b (
        node_id, identity, incarnation, addresses, rack, live, heartbeat_at, returned_at,
        session_pid
    )
    VALUES (
        mine, p_addresses[1], p_incarnation, p_addresses, p_rack, true, right_now, right_now,
        pg_backend_pid()
    )
    ON CONFLICT ON CONSTRAINT brokers_pkey DO UPDATE
    SET incarnation = excluded.incarnation, addresses = excluded.addresses, rack = excluded.rack,
        live = true, heartbeat_at = excluded.heartbeat_at, returned_at = excluded.returned_at,
        session_pid = excluded.session_pid;
    SELECT i.identity INTO identity_before FROM streamhouse_internal.node_identities AS i
    WHERE i.node_id = mine;
    INSERT INTO streamhouse_internal.node_identities AS i (node_id, identity)
    VALUES (mine, p_addresses[1])
    ON CONFLICT ON CONSTRAINT node_identities_pkey DO UPDATE SET identity = excluded.identity
    WHERE i.identity <> excluded.identity;
    IF identity_before <> p_addresses[1] THEN
        UPDATE streamhouse_internal.entity_configs AS e
        SET configs = '{}', version = streamhouse_internal.next_version()
        WHERE e.kind IN ('broker', 'broker-start') AND e.name = mine::text AND e.configs <> '{}';
    END IF;
    PERFORM streamhouse_internal.next_broker_generation(-1);
    RETURN QUERY SELECT * FROM streamhouse_internal.live_brokers(mine);
END
$function$;
