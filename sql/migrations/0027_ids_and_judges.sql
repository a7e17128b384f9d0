-- ids_from_server: when the server was started that gave out the last ids of producers. A standby that
-- takes over is another one: it may not have heard of the last ids that were given out.
ALTER TABLE streamhouse_internal.cluster
    ADD COLUMN ids_from_server timestamptz NOT NULL DEFAULT pg_postmaster_start_time();

-- Ids of producers that are another cluster's, or made up, say nothing of what a partition has forgotten
-- of this cluster's: one such id, higher than all that will ever be given out, and any producer could go
-- on in that partition for ever, with a batch before it lost (0017).
UPDATE streamhouse_internal.partitions AS p SET forgotten_producer_id = c.next_producer_id - 1
FROM streamhouse_internal.cluster AS c
WHERE p.forgotten_producer_id >= c.next_producer_id;

-- Look at p_visited producers' states behind a key; remove at most p_limit that nobody wrote with for so
-- long, unless a transaction of the producer is open there. next_*: the key to go on behind; null at the
-- end.
CREATE OR REPLACE FUNCTION streamhouse_internal.expire_producers(
    p_unused interval, p_topic_id uuid, p_partition int, p_producer_id bigint, p_visited int,
    p_limit int,
    OUT next_topic_id uuid, OUT next_partition int, OUT next_producer_id bigint, OUT removed int
)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $function$
DECLARE
    oldest CONSTANT timestamptz := clock_timestamp() - p_unused;
    topic_ids uuid[]; partitions int[]; producer_ids bigint[];  -- that are old enough
    visited bigint;
    doomed tid[];
    forgotten record;
BEGIN
    SELECT
        count(*), (array_agg(s.topic_id))[p_visited], (array_agg(s.partition))[p_visited],
        (array_agg(s.producer_id))[p_visited],
        (array_agg(s.topic_id) FILTER (WHERE s.updated_at <= oldest))[:p_limit],
        (array_agg(s.partition) FILTER (WHERE s.updated_at <= oldest))[:p_limit],
        (array_agg(s.producer_id) FILTER (WHERE s.updated_at <= oldest))[:p_limit]
    INTO
        visited, next_topic_id, next_partition, next_producer_id, topic_ids, partitions, producer_ids
    FROM (
        SELECT f.topic_id, f.partition, f.producer_id, f.updated_at
        FROM streamhouse_internal.producers AS f
        WHERE (f.topic_id, f.partition, f.producer_id) > (p_topic_id, p_partition, p_producer_id)
        ORDER BY f.topic_id, f.partition, f.producer_id
        LIMIT p_visited
    ) AS s;
    removed := 0;
    IF producer_ids IS NULL THEN
        RETURN;
    END IF;
    IF cardinality(producer_ids) = p_limit THEN  -- there may be more of them
        next_topic_id := topic_ids[p_limit];
        next_partition := partitions[p_limit];
        next_producer_id := producer_ids[p_limit];
    END IF;
    PERFORM  -- the rows are locked as they are reached, in the order of the array: no deadlock
    FROM (
        SELECT DISTINCT d.topic_id, d.partition
        FROM unnest(topic_ids, partitions) AS d (topic_id, partition)
        ORDER BY d.topic_id, d.partition
        OFFSET 0
    ) AS w
    CROSS JOIN LATERAL (
        SELECT FROM streamhouse_internal.partitions AS p
        WHERE p.topic_id = w.topic_id AND p.partition = w.partition
        FOR UPDATE
    ) AS locked;
    doomed := ARRAY(
        SELECT s.place
        FROM unnest(topic_ids, partitions, producer_ids) AS w (topic_id, partition, producer_id)
        CROSS JOIN LATERAL (  -- where it is gone, purge_topic has the states
            SELECT FROM streamhouse_internal.partitions AS f
            WHERE f.topic_id = w.topic_id AND f.partition = w.partition
            OFFSET 0
        ) AS known
        CROSS JOIN LATERAL (
            SELECT f.ctid AS place
            FROM streamhouse_internal.producers AS f
            WHERE f.topic_id = w.topic_id AND f.partition = w.partition
                AND f.producer_id = w.producer_id AND f.updated_at <= oldest
            OFFSET 0
        ) AS s
        WHERE NOT EXISTS (
            SELECT FROM streamhouse_internal.transaction_partitions AS t
            WHERE t.producer_id = w.producer_id AND t.topic_id = w.topic_id
                AND t.partition = w.partition
            OFFSET 0
        )
    );
    FOR forgotten IN
        WITH deleted AS (
            DELETE FROM streamhouse_internal.producers AS s WHERE s.ctid = ANY (doomed)
            RETURNING s.topic_id, s.partition, s.producer_id
        )
        SELECT d.topic_id, d.partition, max(d.producer_id) AS producer_id
        FROM deleted AS d
        CROSS JOIN streamhouse_internal.cluster AS c
        WHERE d.producer_id < c.next_producer_id  -- others go on wherever they like, anyway
        GROUP BY d.topic_id, d.partition
    LOOP
        UPDATE streamhouse_internal.partitions AS p SET forgotten_producer_id = forgotten.producer_id
        WHERE p.topic_id = forgotten.topic_id AND p.partition = forgotten.partition
            AND p.forgotten_producer_id < forgotten.producer_id;
    END LOOP;
    removed := cardinality(doomed);
END
$function$;

-- Whether a broker has been silent for the time to live, and for half of it while its judge was heard
-- of. A judge that was silent himself for almost as long, because this database was away, would call
-- dead whoever is not back before him.
CREATE FUNCTION streamhouse_internal.is_silent(
    p_heartbeat_at timestamptz, p_judge_at timestamptz, p_now timestamptz, p_time_to_live interval
) RETURNS boolean
LANGUAGE sql IMMUTABLE
AS $function$
    SELECT NOT streamhouse_internal.is_recent(p_heartbeat_at, p_now, p_time_to_live)
        AND NOT streamhouse_internal.is_recent(p_heartbeat_at, p_judge_at, p_time_to_live / 2);
$function$;

-- Say that a broker is alive, call dead who is not, and see who is. No row: another process has
-- registered with that identity since. Whatever changes the set of live brokers, this one's return
-- included, is decided and done under the cluster's lock. All else takes only this broker's row and
-- waits for no disk: nothing is lost if a heartbeat is. Nor does a burial wait for that lock, which may
-- be held for long, by who deletes a big topic: all judges would be silent together then. One of the
-- next heartbeats buries.
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
    buries boolean;
    knows_too_much boolean;  -- of what this database has lost
    buried boolean := false;
BEGIN
    SELECT * INTO mine FROM streamhouse_internal.brokers AS b
    WHERE b.node_id = p_node_id AND b.incarnation = p_incarnation;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    judges := streamhouse_internal.is_recent(mine.heartbeat_at, right_now, p_time_to_live)
        AND mine.returned_at < right_now - p_time_to_live;
    buries := judges AND EXISTS (
        SELECT FROM streamhouse_internal.brokers AS b
        WHERE b.live AND streamhouse_internal.is_silent(
            b.heartbeat_at, mine.heartbeat_at, right_now, p_time_to_live
        )
    );
    knows_too_much := p_known_generation > (
        SELECT c.broker_generation FROM streamhouse_internal.cluster AS c
    );
    IF buries AND mine.live AND NOT knows_too_much THEN
        PERFORM FROM streamhouse_internal.cluster FOR UPDATE SKIP LOCKED;
        buries := FOUND;
    END IF;
    IF mine.live AND NOT buries AND NOT knows_too_much THEN
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
            AND streamhouse_internal.is_silent(
                b.heartbeat_at, mine.heartbeat_at, right_now, p_time_to_live
            );
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
