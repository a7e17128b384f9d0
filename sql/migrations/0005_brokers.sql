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

-- A generation that some broker has seen is never given again, even if this database lost it (a
-- standby that lagged was promoted). Then it skips one, which tells brokers that they missed something.
-- Called under the cluster's lock.
CREATE FUNCTION streamhouse_internal.next_broker_generation(p_known bigint) RETURNS void
LANGUAGE sql VOLATILE
AS $function$
    UPDATE streamhouse_internal.cluster
    SET broker_generation = CASE
        WHEN p_known > broker_generation THEN p_known + 2 ELSE broker_generation + 1
    END;
$function$;

-- Join the cluster. A known identity keeps its node id; a new one gets the first free id from
-- p_preferred on. p_alone: no other broker can be alive, whatever its heartbeat says. Nobody else is
-- called dead here: if all heartbeats are old, it may be this database that was away.
CREATE FUNCTION streamhouse_internal.register_broker(
    p_incarnation uuid, p_addresses text[], p_rack text, p_preferred int, p_alone boolean
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
    UPDATE streamhouse_internal.brokers AS b SET live = false WHERE b.live AND p_alone;
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
    PERFORM streamhouse_internal.next_broker_generation(-1);
    RETURN QUERY SELECT * FROM streamhouse_internal.live_brokers(mine);
END
$function$;

-- Whether a heartbeat is of the last p_time_to_live; one from the future (a clock that was set back)
-- is not.
CREATE FUNCTION streamhouse_internal.is_recent(
    p_heartbeat_at timestamptz, p_now timestamptz, p_time_to_live interval
) RETURNS boolean
LANGUAGE sql IMMUTABLE
AS $function$
    SELECT p_heartbeat_at BETWEEN p_now - p_time_to_live AND p_now + p_time_to_live;
$function$;

-- Say that a broker is alive, call dead who is not, and see who is. No row: another process has
-- registered with that identity since. Whatever changes the set of live brokers, this one's return
-- included, is decided and done under the cluster's lock. All else takes only this broker's row and
-- waits for no disk: nothing is lost if a heartbeat is.
CREATE FUNCTION streamhouse_internal.broker_heartbeat(
    p_node_id int, p_incarnation uuid, p_known_generation bigint, p_time_to_live interval
)
RETURNS TABLE (this_node_id int, generation bigint, node_id int, addresses text[], rack text)
LANGUAGE plpgsql VOLATILE
AS $function$
DECLARE
    right_now timestamptz := clock_timestamp();
    mine streamhouse_internal.brokers;
    judges boolean;  -- has itself been heard of for long enough to call others dead
    buried boolean := false;
BEGIN
    SELECT * INTO mine FROM streamhouse_internal.brokers AS b
    WHERE b.node_id = p_node_id AND b.incarnation = p_incarnation;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    judges := streamhouse_internal.is_recent(mine.heartbeat_at, right_now, p_time_to_live)
        AND mine.returned_at < right_now - p_time_to_live;
    IF mine.live AND NOT (judges AND EXISTS (
        SELECT FROM streamhouse_internal.brokers AS b
        WHERE b.live
            AND NOT streamhouse_internal.is_recent(b.heartbeat_at, right_now, p_time_to_live)
    )) AND p_known_generation <= (
        SELECT c.broker_generation FROM streamhouse_internal.cluster AS c
    ) THEN
        UPDATE streamhouse_internal.brokers AS b
        SET heartbeat_at = clock_timestamp(),
            returned_at = CASE
                WHEN streamhouse_internal.is_recent(b.heartbeat_at, right_now, p_time_to_live)
                THEN b.returned_at ELSE clock_timestamp()
            END
        WHERE b.node_id = p_node_id AND b.incarnation = p_incarnation AND b.live;
        IF FOUND THEN
            PERFORM set_config('synchronous_commit', 'off', true);
            RETURN QUERY SELECT * FROM streamhouse_internal.live_brokers(p_node_id);
            RETURN;
        END IF;  -- else somebody has called it dead this very moment
    END IF;
    PERFORM FROM streamhouse_internal.cluster FOR UPDATE;  -- before any broker's row: no deadlock
    SELECT * INTO mine FROM streamhouse_internal.brokers AS b
    WHERE b.node_id = p_node_id AND b.incarnation = p_incarnation;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    UPDATE streamhouse_internal.brokers AS b
    SET heartbeat_at = clock_timestamp(), live = true,
        returned_at = CASE
            WHEN mine.live
                AND streamhouse_internal.is_recent(b.heartbeat_at, right_now, p_time_to_live)
            THEN b.returned_at ELSE clock_timestamp()
        END
    WHERE b.node_id = p_node_id;
    IF judges AND mine.live THEN
        UPDATE streamhouse_internal.brokers AS b SET live = false
        WHERE b.live AND b.node_id <> p_node_id
            AND NOT streamhouse_internal.is_recent(b.heartbeat_at, right_now, p_time_to_live);
        buried := FOUND;
    END IF;
    IF buried OR NOT mine.live OR p_known_generation > (
        SELECT c.broker_generation FROM streamhouse_internal.cluster AS c
    ) THEN
        PERFORM streamhouse_internal.next_broker_generation(p_known_generation);
    END IF;
    RETURN QUERY SELECT * FROM streamhouse_internal.live_brokers(p_node_id);
END
$function$;

-- Leave the cluster; the others see it with their next heartbeat. The incarnation ends, too, so that
-- a heartbeat that is still on its way finds nobody.
CREATE FUNCTION streamhouse_internal.deregister_broker(p_node_id int, p_incarnation uuid)
RETURNS TABLE (this_node_id int, generation bigint, node_id int, addresses text[], rack text)
LANGUAGE plpgsql VOLATILE
AS $function$
DECLARE
    was_live boolean;
BEGIN
    PERFORM FROM streamhouse_internal.cluster FOR UPDATE;
    SELECT b.live INTO was_live FROM streamhouse_internal.brokers AS b
    WHERE b.node_id = p_node_id AND b.incarnation = p_incarnation;
    UPDATE streamhouse_internal.brokers AS b SET live = false, incarnation = gen_random_uuid()
    WHERE b.node_id = p_node_id AND b.incarnation = p_incarnation;
    IF was_live THEN
        PERFORM streamhouse_internal.next_broker_generation(-1);
    END IF;
    RETURN QUERY SELECT * FROM streamhouse_internal.live_brokers(p_node_id);
END
$function$;

CREATE VIEW streamhouse.brokers AS
SELECT node_id, addresses, rack, live, heartbeat_at
FROM streamhouse_internal.brokers;
COMMENT ON VIEW streamhouse.brokers IS 'One row per broker, dead ones for a day; first address first';
