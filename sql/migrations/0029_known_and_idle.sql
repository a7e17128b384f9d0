-- Every broker that is known costs all others time, whenever they compute who leads a partition
-- (broker/leaders.py); and one that starts over and over, under another address each time, left more of
-- them behind in a day than any cluster has. So of those that are not alive only so many are known as a
-- cluster may well have that starts anew as a whole, whose brokers must come back with their node ids; and
-- those first that had been alive for a while: what starts over and over never is, however late it went.

-- Join the cluster. No row: a broker with that identity is alive. A known identity keeps its node id; a
-- new one gets the first free id from p_preferred on. p_alone: no other broker can be alive, whatever its
-- heartbeat says. Nobody else is called dead here: if all heartbeats are old, it may be this database
-- that was away.
CREATE OR REPLACE FUNCTION streamhouse_internal.register_broker(
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

-- Become the owner of groups; p_create makes those that do not exist. p_group_ids: ascending, none
-- twice. A row of the table for each that is ours now.
--
-- Only who would make a group is about to write it. Nobody else keeps it from going when its time is
-- over (expire_group_offsets): who just looks at it now and then must not prolong that. Whoever joins one
-- that was loaded for somebody's look, and goes at this very moment, is fenced, and comes again.
CREATE OR REPLACE FUNCTION streamhouse_internal.take_groups(p_group_ids text[], p_create boolean)
RETURNS SETOF streamhouse_internal.groups
LANGUAGE plpgsql VOLATILE
AS $function$
DECLARE
    locked text[];
BEGIN
    IF p_create THEN
        RETURN QUERY
        INSERT INTO streamhouse_internal.groups AS g (group_id, owner_epoch, touched_at)
        SELECT
            w.group_id, nextval('streamhouse_internal.group_owner_epochs'), clock_timestamp()
        FROM unnest(p_group_ids) AS w (group_id)  -- in the order of the array: no deadlock
        ON CONFLICT (group_id) DO UPDATE SET  -- not excluded's: those are from before the lock
            owner_epoch = nextval('streamhouse_internal.group_owner_epochs'),
            touched_at = clock_timestamp()
        RETURNING g.*;
    ELSE
        locked := streamhouse_internal.lock_groups(p_group_ids);
        RETURN QUERY
        UPDATE streamhouse_internal.groups AS g SET
            owner_epoch = nextval('streamhouse_internal.group_owner_epochs')
        WHERE g.group_id = ANY (locked)
        RETURNING g.*;
    END IF;
END
$function$;
