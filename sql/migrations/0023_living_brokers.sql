-- Who comes with the identity of a broker that is alive does not take it: two brokers that were told to
-- advertise the same address would end each other. A broker is alive if its heartbeat is recent and the
-- session that it came by is there. So one that was killed can come back at once: its sessions end with
-- it, unless its machine has gone, too, or a pooler stands between, and then its heartbeat grows old.
ALTER TABLE streamhouse_internal.brokers ADD COLUMN session_pid int;

-- Join the cluster. No row: a broker with that identity is alive. A known identity keeps its node id; a
-- new one gets the first free id from p_preferred on. p_alone: no other broker can be alive, whatever its
-- heartbeat says. Nobody else is called dead here: if all heartbeats are old, it may be this database
-- that was away.
DROP FUNCTION streamhouse_internal.register_broker(uuid, text[], text, int, boolean);
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
    PERFORM streamhouse_internal.next_broker_generation(-1);
    RETURN QUERY SELECT * FROM streamhouse_internal.live_brokers(mine);
END
$function$;

-- Say that a broker is alive, call dead who is not, and see who is. No row: another process has
-- registered with that identity since. Whatever changes the set of live brokers, this one's return
-- included, is decided and done under the cluster's lock. All else takes only this broker's row and
-- waits for no disk: nothing is lost if a heartbeat is.
CREATE OR REPLACE FUNCTION streamhouse_internal.broker_heartbeat(
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
        SET heartbeat_at = clock_timestamp(), session_pid = pg_backend_pid(),
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
    SET heartbeat_at = clock_timestamp(), session_pid = pg_backend_pid(), live = true,
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
