-- The brokers of the cluster. Who is alive is decided here, by this database's clock alone: a broker
-- whose heartbeat is older than the time to live is called dead by the next one that looks. Every change
-- of the set of live brokers takes the next generation, under the lock of the cluster's row; so two
-- brokers that know the same generation know the same set.

ALTER TABLE streamhouse_internal.cluster ADD COLUMN broker_generation bigint NOT NULL DEFAULT -1;

-- identity is the first advertised address: whoever comes back with it is the same node.
-- returned_at is since when its heartbeats have come without a gap: who was away himself, because
-- this database was, calls nobody dead before the others had the time to come back.
CREATE TABLE streamhouse_internal.brokers (
    node_id int PRIMARY KEY,
    identity text COLLATE "C" NOT NULL UNIQUE,
    incarnation uuid NOT NULL,
    addresses text[] NOT NULL,
    rack text,
    live boolean NOT NULL,
    heartbeat_at timestamptz NOT NULL,
    returned_at timestamptz NOT NULL
) WITH (
    fillfactor = 25,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);

CREATE FUNCTION streamhouse_internal.next_broker_generation() RETURNS void
LANGUAGE sql VOLATILE
AS $function$
    UPDATE streamhouse_internal.cluster SET broker_generation = broker_generation + 1;
$function$;

-- The live brokers, and the generation of that set: one statement, so both are of one moment.
CREATE FUNCTION streamhouse_internal.live_brokers(p_node_id int)
RETURNS TABLE (this_node_id int, generation bigint, node_id int, addresses text[], rack text)
LANGUAGE sql STABLE
AS $function$
    SELECT p_node_id, c.broker_generation, b.node_id, b.addresses, b.rack
    FROM streamhouse_internal.cluster AS c
    LEFT JOIN streamhouse_internal.brokers AS b ON b.live
    ORDER BY b.node_id;
$function$;

-- Join the cluster. A known identity keeps its node id; a new one gets the first free id from
-- p_preferred on. p_alone: no other broker can be alive, whatever its heartbeat says.
CREATE FUNCTION streamhouse_internal.register_broker(
    p_incarnation uuid, p_addresses text[], p_rack text, p_preferred int, p_alone boolean,
    p_time_to_live interval
)
RETURNS TABLE (this_node_id int, generation bigint, node_id int, addresses text[], rack text)
LANGUAGE plpgsql VOLATILE
AS $function$
DECLARE
    mine int;
    right_now timestamptz;
BEGIN
    PERFORM FROM streamhouse_internal.cluster FOR UPDATE;
    right_now := clock_timestamp();
    UPDATE streamhouse_internal.brokers AS b SET live = false
    WHERE b.live AND (p_alone OR b.heartbeat_at < right_now - p_time_to_live);
    DELETE FROM streamhouse_internal.brokers AS b
    WHERE NOT b.live AND b.heartbeat_at < right_now - interval '1 day'
        AND b.identity <> p_addresses[1];
    SELECT b.node_id INTO mine FROM streamhouse_internal.brokers AS b
    WHERE b.identity = p_addresses[1];
    IF mine IS NULL THEN
        SELECT min(n) INTO mine
        FROM generate_series(
            p_preferred, p_preferred + (SELECT count(*) FROM streamhouse_internal.brokers)
        ) AS n
        WHERE NOT EXISTS (SELECT FROM streamhouse_internal.brokers AS b WHERE b.node_id = n);
    END IF;
    INSERT INTO streamhouse_internal.brokers AS b (
        node_id, identity, incarnation, addresses, rack, live, heartbeat_at, returned_at
    )
    VALUES (
        mine, p_addresses[1], p_incarnation, p_addresses, p_rack, true, right_now, right_now
    )
    ON CONFLICT ON CONSTRAINT brokers_pkey DO UPDATE
    SET incarnation = excluded.incarnation, addresses = excluded.addresses, rack = excluded.rack,
        live = true, heartbeat_at = excluded.heartbeat_at, returned_at = excluded.returned_at;
    PERFORM streamhouse_internal.next_broker_generation();
    RETURN QUERY SELECT * FROM streamhouse_internal.live_brokers(mine);
END
$function$;

-- Say that a broker is alive, call dead who is not, and see who is. No row: another process has
-- registered with that identity since. Nothing is lost if a heartbeat is, so it waits for no disk
-- unless the set changes.
CREATE FUNCTION streamhouse_internal.broker_heartbeat(
    p_node_id int, p_incarnation uuid, p_time_to_live interval
)
RETURNS TABLE (this_node_id int, generation bigint, node_id int, addresses text[], rack text)
LANGUAGE plpgsql VOLATILE
AS $function$
DECLARE
    oldest timestamptz := clock_timestamp() - p_time_to_live;
    mine streamhouse_internal.brokers;
    changes boolean;
    died boolean := false;
BEGIN
    SELECT * INTO mine FROM streamhouse_internal.brokers AS b
    WHERE b.node_id = p_node_id AND b.incarnation = p_incarnation;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    changes := NOT mine.live OR (
        mine.heartbeat_at >= oldest AND mine.returned_at < oldest AND EXISTS (
            SELECT FROM streamhouse_internal.brokers AS b WHERE b.live AND b.heartbeat_at < oldest
        )
    );
    IF changes THEN
        PERFORM FROM streamhouse_internal.cluster FOR UPDATE;  -- before any broker's row: no deadlock
    ELSE
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
    UPDATE streamhouse_internal.brokers AS b
    SET heartbeat_at = clock_timestamp(), live = true,
        returned_at = CASE
            WHEN b.live AND b.heartbeat_at >= oldest THEN b.returned_at ELSE clock_timestamp()
        END
    WHERE b.node_id = p_node_id AND b.incarnation = p_incarnation;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF changes THEN
        UPDATE streamhouse_internal.brokers AS b SET live = false
        WHERE b.live AND b.heartbeat_at < oldest AND mine.live;
        died := FOUND;
        IF died OR NOT mine.live THEN
            PERFORM streamhouse_internal.next_broker_generation();
        END IF;
    END IF;
    RETURN QUERY SELECT * FROM streamhouse_internal.live_brokers(p_node_id);
END
$function$;

-- Leave the cluster; the others see it with their next heartbeat.
CREATE FUNCTION streamhouse_internal.deregister_broker(p_node_id int, p_incarnation uuid)
RETURNS TABLE (this_node_id int, generation bigint, node_id int, addresses text[], rack text)
LANGUAGE plpgsql VOLATILE
AS $function$
BEGIN
    PERFORM FROM streamhouse_internal.cluster FOR UPDATE;
    UPDATE streamhouse_internal.brokers AS b SET live = false
    WHERE b.node_id = p_node_id AND b.incarnation = p_incarnation AND b.live;
    IF FOUND THEN
        PERFORM streamhouse_internal.next_broker_generation();
    END IF;
    RETURN QUERY SELECT * FROM streamhouse_internal.live_brokers(p_node_id);
END
$function$;

CREATE VIEW streamhouse.brokers AS
SELECT node_id, addresses, rack, live, heartbeat_at
FROM streamhouse_internal.brokers;
COMMENT ON VIEW streamhouse.brokers IS 'One row per broker, dead ones for a day; first address first';
