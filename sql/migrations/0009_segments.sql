-- Storage for years (D6): built segments, what is to be done in the background, and what is taken away.
--
-- Locks are taken in this order: an object's row that is committed, partitions, objects that are
-- released; of each kind in ascending order. Nobody who holds an object that is released waits for
-- anything but the next of them, so this adds nothing to the order of 0007.

-- built_offset: the rows before it are built segments. compacted_offset: before it every key has one
-- record (of those that were there at compacted_at). reserved_offset: no object was ever reserved for
-- offsets behind it. purged_offset: no row of the index ends before it.
ALTER TABLE streamhouse_internal.partitions
    ADD COLUMN built_offset bigint NOT NULL DEFAULT 0,
    ADD COLUMN compacted_offset bigint NOT NULL DEFAULT 0,
    ADD COLUMN compacted_at timestamptz,
    ADD COLUMN reserved_offset bigint NOT NULL DEFAULT -1,
    ADD COLUMN purged_offset bigint NOT NULL DEFAULT 0;
-- Where the log start has moved. A commit changes neither column, so it stays in its page (HOT); and
-- the index is partial, so no plan of a lookup by key takes it for the key.
CREATE INDEX partitions_unpurged ON streamhouse_internal.partitions (topic_id, partition)
WHERE log_start_offset > purged_offset;

-- index_length: bytes of the index behind a built segment's batches; null in an object of the writer.
ALTER TABLE streamhouse_internal.segments
    ADD COLUMN index_length int,
    ADD CHECK (index_length > 0) NOT VALID;  -- old rows have none, and are many

-- The key answers how much there is, and from when, without a look at rows, which lie far apart;
-- for that, rows have to be vacuumed soon after they are written.
ALTER TABLE streamhouse_internal.segments DROP CONSTRAINT segments_pkey;
ALTER TABLE streamhouse_internal.segments ADD PRIMARY KEY (topic_id, partition, end_offset)
INCLUDE (start_offset, byte_length, max_timestamp_ms);
ALTER TABLE streamhouse_internal.segments SET (
    autovacuum_vacuum_insert_scale_factor = 0.02,
    autovacuum_vacuum_insert_threshold = 10000
);

-- doomed, from now on, is also what was live and is named by no row of the index any more. Bytes go a
-- while after that, and the row after them. state_at: since when it is what it is; null: since it was
-- created. A trigger sets it, so it is right whoever changes the state.
ALTER TABLE streamhouse_internal.objects ADD COLUMN state_at timestamptz;
UPDATE streamhouse_internal.objects SET state_at = now() WHERE state = 'doomed';
DROP INDEX streamhouse_internal.objects_not_live;
CREATE INDEX objects_pending ON streamhouse_internal.objects (created_at) WHERE state = 'pending';
CREATE INDEX objects_doomed ON streamhouse_internal.objects (state_at) WHERE state = 'doomed';

CREATE FUNCTION streamhouse_internal.note_state() RETURNS trigger
LANGUAGE plpgsql
AS $function$
BEGIN
    NEW.state_at := clock_timestamp();
    RETURN NEW;
END
$function$;
CREATE TRIGGER objects_state BEFORE UPDATE ON streamhouse_internal.objects
FOR EACH ROW WHEN (OLD.state <> NEW.state) EXECUTE FUNCTION streamhouse_internal.note_state();

-- Whether nothing of the topic is left but this row: it was all taken away at once before.
ALTER TABLE streamhouse_internal.topics_deleted ADD COLUMN purged boolean NOT NULL DEFAULT true;
ALTER TABLE streamhouse_internal.topics_deleted ALTER COLUMN purged SET DEFAULT false;
CREATE INDEX topics_deleted_unpurged ON streamhouse_internal.topics_deleted (topic_id)
WHERE NOT purged;

-- What is to be done to a partition. claimed_until: null, or past, is free for all.
CREATE TABLE streamhouse_internal.storage_tasks (
    kind text COLLATE "C" NOT NULL,
    topic_id uuid NOT NULL,
    partition int NOT NULL,
    claimed_until timestamptz,
    added_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (kind, topic_id, partition)
) WITH (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX storage_tasks_age ON streamhouse_internal.storage_tasks (kind, added_at);

-- What one broker does for all, from time to time.
CREATE TABLE streamhouse_internal.storage_rounds (
    name text COLLATE "C" PRIMARY KEY,
    next_at timestamptz NOT NULL
);

-- Where a topic's segments lie: topics/NAME. Kept for ever: a topic that is made again under a name never meets the
-- paths of the one before.
CREATE TABLE streamhouse_internal.topic_folders (
    folder text COLLATE "C" PRIMARY KEY,
    topic_id uuid NOT NULL UNIQUE
);

-- Doom those of the objects that are live, and that no row of the index names; return how many.
-- Who removes rows calls it right after, in a transaction of its own, so that no commit waits for so many
-- rows; if it dies before, doom_unneeded_objects finds them. Whoever removes the other rows of an object at the same time looks
-- under the same lock, in a statement that begins when it has it: so the later one sees what both did.
CREATE FUNCTION streamhouse_internal.release_objects(p_object_ids bigint[]) RETURNS int
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $function$
DECLARE
    ascending_ids CONSTANT bigint[] := ARRAY(
        SELECT DISTINCT w.object_id FROM unnest(p_object_ids) AS w (object_id)
        WHERE w.object_id IS NOT NULL  -- null: the row had its bytes itself
        ORDER BY w.object_id
    );
    doomed int;
BEGIN
    PERFORM  -- the rows are locked as they are reached, in the order of the array: no deadlock
    FROM unnest(ascending_ids) AS w (object_id)
    CROSS JOIN LATERAL (
        SELECT FROM streamhouse_internal.objects AS o WHERE o.object_id = w.object_id
        FOR UPDATE
    ) AS locked;
    UPDATE streamhouse_internal.objects AS o
    SET state = 'doomed'
    WHERE o.object_id = ANY (ascending_ids) AND o.state = 'live' AND NOT EXISTS (
        SELECT FROM streamhouse_internal.segments AS s WHERE s.object_id = o.object_id
        OFFSET 0  -- one after the other, by key
    );
    GET DIAGNOSTICS doomed = ROW_COUNT;
    RETURN doomed;
END
$function$;

-- Reserve a path for a segment of a partition; null if the partition is gone.
-- The name tells the range; one that may have been reserved before also has 8 digits of chance, since
-- rows of objects are removed with them, and somebody may still remember what was there.
CREATE FUNCTION streamhouse_internal.reserve_segment(
    p_topic_id uuid, p_partition int, p_start_offset bigint, p_end_offset bigint
) RETURNS text
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $function$
DECLARE
    hex_id CONSTANT text := replace(p_topic_id::text, '-', '');
    last_reserved bigint;
    topic_name text;
    topic_folder text;
    discriminator text;
    stem text;
    reserved_path text;
BEGIN
    SELECT p.reserved_offset INTO last_reserved FROM streamhouse_internal.partitions AS p
    WHERE p.topic_id = p_topic_id AND p.partition = p_partition
    FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    IF p_end_offset > last_reserved THEN
        UPDATE streamhouse_internal.partitions AS p SET reserved_offset = p_end_offset
        WHERE p.topic_id = p_topic_id AND p.partition = p_partition;
    END IF;

    SELECT f.folder INTO topic_folder FROM streamhouse_internal.topic_folders AS f
    WHERE f.topic_id = p_topic_id;
    IF NOT FOUND THEN
        SELECT t.name INTO topic_name FROM streamhouse_internal.topics AS t
        WHERE t.topic_id = p_topic_id;
        FOREACH discriminator IN ARRAY ARRAY['', '.' || left(hex_id, 8), '.' || hex_id] LOOP
            INSERT INTO streamhouse_internal.topic_folders (folder, topic_id)
            VALUES ('topics/' || topic_name || discriminator, p_topic_id)
            ON CONFLICT DO NOTHING;
            SELECT f.folder INTO topic_folder FROM streamhouse_internal.topic_folders AS f
            WHERE f.topic_id = p_topic_id;
            EXIT WHEN FOUND;  -- else another topic has it
        END LOOP;
    END IF;

    stem := format(
        '%s/partitions/%s/segments/%s-%s', topic_folder, p_partition,
        lpad(p_start_offset::text, greatest(length(p_start_offset::text), 8), '0'),
        lpad(p_end_offset::text, greatest(length(p_end_offset::text), 8), '0')
    );
    reserved_path := stem || '.seg';
    LOOP
        IF p_end_offset <= last_reserved THEN
            reserved_path := stem || '.' || left(gen_random_uuid()::text, 8) || '.seg';
        END IF;
        INSERT INTO streamhouse_internal.objects (path) VALUES (reserved_path)
        ON CONFLICT (path) DO NOTHING;
        IF FOUND THEN
            RETURN reserved_path;
        END IF;
        last_reserved := p_end_offset;
    END LOOP;
END
$function$;

-- Put one object in the place of rows that are what the caller has read; true if it is done, or was.
--
--   p_path, p_size                                  the object; reserved before
--   p_start_offsets, p_end_offsets, p_paths,        the rows, in offset order, as they were read
--   p_starts, p_lengths, p_index_lengths
--   p_byte_start, p_byte_length, p_index_length,    the row that comes in their place
--   p_max_timestamp_ms
--
-- released: objects that rows were of; for release_objects.
-- The object is live afterwards, or doomed: also if the partition is gone, or its log begins behind all
-- of the rows. The object's row is locked before it is looked at, even if the answer is there already,
-- for the reason given at commit_object: the bytes of the objects before go once this is answered.
CREATE FUNCTION streamhouse_internal.replace_segments(
    p_topic_id uuid, p_partition int, p_path text, p_size bigint,
    p_start_offsets bigint[], p_end_offsets bigint[], p_paths text[],
    p_starts bigint[], p_lengths bigint[], p_index_lengths int[],
    p_byte_start bigint, p_byte_length bigint, p_index_length int, p_max_timestamp_ms bigint,
    OUT replaced boolean, OUT released bigint[]
)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $function$
DECLARE
    first_offset CONSTANT bigint := p_start_offsets[1];
    last_offset CONSTANT bigint := p_end_offsets[cardinality(p_end_offsets)];
    new_object bigint;
    new_state text;
    log_start bigint;
    built bigint;
    start_offsets bigint[]; end_offsets bigint[]; paths text[];
    starts bigint[]; lengths bigint[]; index_lengths int[];
BEGIN
    SELECT o.object_id, o.state INTO new_object, new_state
    FROM streamhouse_internal.objects AS o WHERE o.path = p_path
    FOR UPDATE;
    IF new_state IS DISTINCT FROM 'pending' THEN
        replaced := coalesce(new_state = 'live', false);
        RETURN;
    END IF;

    SELECT p.log_start_offset, p.built_offset INTO log_start, built
    FROM streamhouse_internal.partitions AS p
    WHERE p.topic_id = p_topic_id AND p.partition = p_partition
    FOR UPDATE;
    IF FOUND AND log_start <= last_offset THEN
        SELECT
            array_agg(s.start_offset ORDER BY s.end_offset),
            array_agg(s.end_offset ORDER BY s.end_offset),
            array_agg(s.path ORDER BY s.end_offset),
            array_agg(s.byte_start ORDER BY s.end_offset),
            array_agg(s.byte_length ORDER BY s.end_offset),
            array_agg(coalesce(s.index_length, 0) ORDER BY s.end_offset),
            array_agg(s.object_id ORDER BY s.end_offset)
        INTO start_offsets, end_offsets, paths, starts, lengths, index_lengths, released
        FROM (
            SELECT
                found.*,
                coalesce(
                    (
                        SELECT o.path FROM streamhouse_internal.objects AS o
                        WHERE o.object_id = found.object_id
                    ),
                    p_topic_id || '/' || p_partition || '@' || found.start_offset  -- as readers see it
                ) AS path
            FROM streamhouse_internal.segments AS found
            WHERE found.topic_id = p_topic_id AND found.partition = p_partition
                AND found.end_offset BETWEEN first_offset AND last_offset
        ) AS s;
    END IF;
    -- The rows of the index tile the log; so do these, then.
    IF (start_offsets, end_offsets, paths, starts, lengths, index_lengths) IS DISTINCT FROM
        (p_start_offsets, p_end_offsets, p_paths, p_starts, p_lengths, p_index_lengths) THEN
        UPDATE streamhouse_internal.objects AS o
        SET state = 'doomed', size = p_size
        WHERE o.object_id = new_object;
        replaced := false;
        RETURN;
    END IF;

    DELETE FROM streamhouse_internal.segments AS s
    WHERE s.topic_id = p_topic_id AND s.partition = p_partition
        AND s.end_offset BETWEEN first_offset AND last_offset;
    INSERT INTO streamhouse_internal.segments (
        topic_id, partition, start_offset, end_offset, object_id, byte_start, byte_length,
        max_timestamp_ms, index_length
    )
    VALUES (
        p_topic_id, p_partition, first_offset, last_offset, new_object, p_byte_start, p_byte_length,
        p_max_timestamp_ms, p_index_length
    );
    IF first_offset <= greatest(built, log_start) AND built <= last_offset THEN
        UPDATE streamhouse_internal.partitions AS p SET built_offset = last_offset + 1
        WHERE p.topic_id = p_topic_id AND p.partition = p_partition;
    END IF;
    UPDATE streamhouse_internal.objects AS o SET state = 'live', size = p_size
    WHERE o.object_id = new_object;
    replaced := true;
END
$function$;

-- Move log start offsets past rows that have had their time.
--
--   p_topic_ids, p_partitions   partitions ascending, none twice
--   p_before_ms                 rows whose largest timestamp is less are removed; null: none
--   p_keep_bytes                rows are removed while those behind have as much; null: none
--
-- Returns the new log start of each partition that has moved, to the beginning of a row, or past the
-- last one; never past the last stable offset. Rows are looked at before anything is locked: they are
-- old enough, whatever happens meanwhile.
CREATE FUNCTION streamhouse_internal.expire_records(
    p_topic_ids uuid[], p_partitions int[], p_before_ms bigint[], p_keep_bytes bigint[]
)
RETURNS TABLE (topic_id uuid, partition int, log_start_offset bigint)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $function$
#variable_conflict use_column
DECLARE
    most_expired_rows CONSTANT int := 10000;  -- of a partition in one call, which is soon over
    most_kept_rows CONSTANT int := 100000;  -- that are looked at; a partition with more keeps all
    place record;
    stable bigint;
    expired bigint;  -- where the rows end that have had their time
    kept bigint;
    new_starts bigint[] := '{}';
BEGIN
    FOR i IN 1 .. cardinality(p_partitions) LOOP
        new_starts[i] := 0;
        SELECT p.log_start_offset, p.high_watermark, p.first_unstable_offset INTO place
        FROM streamhouse_internal.partitions AS p
        WHERE p.topic_id = p_topic_ids[i] AND p.partition = p_partitions[i];
        stable := coalesce(place.first_unstable_offset, place.high_watermark);
        CONTINUE WHEN NOT FOUND OR stable <= place.log_start_offset;

        IF p_before_ms[i] IS NOT NULL THEN
            SELECT r.start_offset INTO expired
            FROM (
                SELECT s.* FROM streamhouse_internal.segments AS s
                WHERE s.topic_id = p_topic_ids[i] AND s.partition = p_partitions[i]
                    AND s.end_offset >= place.log_start_offset
                ORDER BY s.end_offset
                LIMIT most_expired_rows
            ) AS r
            WHERE r.end_offset >= stable OR r.max_timestamp_ms >= p_before_ms[i]
                -- records without a timestamp are as old as their object
                OR r.max_timestamp_ms < 0 AND p_before_ms[i] <= (
                    SELECT floor(extract(epoch FROM coalesce(o.state_at, o.created_at)) * 1000)
                    FROM streamhouse_internal.objects AS o
                    WHERE o.object_id = r.object_id
                )
            ORDER BY r.end_offset
            LIMIT 1;
            IF NOT FOUND THEN  -- all of them have had their time; what follows is for the next call
                SELECT coalesce(max(r.end_offset) + 1, 0) INTO expired
                FROM (
                    SELECT s.end_offset FROM streamhouse_internal.segments AS s
                    WHERE s.topic_id = p_topic_ids[i] AND s.partition = p_partitions[i]
                        AND s.end_offset >= place.log_start_offset
                    ORDER BY s.end_offset
                    LIMIT most_expired_rows
                ) AS r;
            END IF;
            new_starts[i] := expired;
        END IF;
        CONTINUE WHEN p_keep_bytes[i] IS NULL;
        kept := stable;
        IF p_keep_bytes[i] > 0 THEN
            kept := (  -- from the newest one on, so what is kept is looked at, and no more
                SELECT r.start_offset
                FROM (
                    SELECT
                        s.start_offset,
                        sum(s.byte_length) OVER (ORDER BY s.end_offset DESC) AS size
                    FROM streamhouse_internal.segments AS s
                    WHERE s.topic_id = p_topic_ids[i] AND s.partition = p_partitions[i]
                        AND s.end_offset >= place.log_start_offset
                    ORDER BY s.end_offset DESC
                    LIMIT most_kept_rows
                ) AS r
                WHERE r.size >= p_keep_bytes[i]
                LIMIT 1
            );
        END IF;
        IF kept >= stable THEN
            kept := coalesce(
                (
                    SELECT s.start_offset FROM streamhouse_internal.segments AS s
                    WHERE s.topic_id = p_topic_ids[i] AND s.partition = p_partitions[i]
                        AND s.end_offset >= stable
                    ORDER BY s.end_offset
                    LIMIT 1
                ),
                stable
            );
        END IF;
        new_starts[i] := greatest(new_starts[i], kept);
    END LOOP;

    FOR i IN 1 .. cardinality(p_partitions) LOOP
        CONTINUE WHEN new_starts[i] = 0;
        SELECT p.log_start_offset INTO place
        FROM streamhouse_internal.partitions AS p
        WHERE p.topic_id = p_topic_ids[i] AND p.partition = p_partitions[i];
        CONTINUE WHEN NOT FOUND OR place.log_start_offset >= new_starts[i];
        RETURN QUERY  -- locked one after the other: no deadlock
        UPDATE streamhouse_internal.partitions AS p SET log_start_offset = new_starts[i]
        WHERE p.topic_id = p_topic_ids[i] AND p.partition = p_partitions[i]
            AND p.log_start_offset < new_starts[i]
        RETURNING p.topic_id, p.partition, p.log_start_offset;
    END LOOP;
END
$function$;

-- Remove at most p_limit rows of one partition that lie before its log start. released: objects that
-- rows were of; for release_objects.
-- any_left is false if no partition has any; removed may be 0 all the same.
CREATE FUNCTION streamhouse_internal.purge_partition(
    p_limit int, OUT any_left boolean, OUT removed int, OUT released bigint[]
)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $function$
DECLARE
    place record;
    log_start bigint;
    removed_transactions int;
BEGIN
    removed := 0;
    SELECT '00000000-0000-0000-0000-000000000000'::uuid AS topic_id, -1 AS partition INTO place;
    LOOP
        SELECT p.topic_id, p.partition INTO place
        FROM streamhouse_internal.partitions AS p
        WHERE p.log_start_offset > p.purged_offset
            AND (p.topic_id, p.partition) > (place.topic_id, place.partition)
        ORDER BY p.topic_id, p.partition
        LIMIT 1;
        any_left := FOUND;
        IF NOT any_left THEN
            RETURN;
        END IF;
        SELECT p.log_start_offset INTO log_start
        FROM streamhouse_internal.partitions AS p
        WHERE p.topic_id = place.topic_id AND p.partition = place.partition
            AND p.log_start_offset > p.purged_offset
        FOR UPDATE;
        EXIT WHEN FOUND;  -- else somebody has done it this very moment
    END LOOP;

    WITH deleted AS (
        DELETE FROM streamhouse_internal.segments AS s
        WHERE s.topic_id = place.topic_id AND s.partition = place.partition
            AND s.end_offset < log_start AND s.end_offset <= (
                SELECT max(r.end_offset)
                FROM (
                    SELECT f.end_offset FROM streamhouse_internal.segments AS f
                    WHERE f.topic_id = place.topic_id AND f.partition = place.partition
                        AND f.end_offset < log_start
                    ORDER BY f.end_offset
                    LIMIT p_limit
                ) AS r
            )
        RETURNING s.object_id
    )
    SELECT count(*), array_agg(DISTINCT d.object_id) INTO removed, released FROM deleted AS d;
    DELETE FROM streamhouse_internal.aborted_transactions AS a
    WHERE a.topic_id = place.topic_id AND a.partition = place.partition
        AND a.last_offset < log_start AND a.last_offset <= (
            SELECT max(r.last_offset)
            FROM (
                SELECT f.last_offset FROM streamhouse_internal.aborted_transactions AS f
                WHERE f.topic_id = place.topic_id AND f.partition = place.partition
                    AND f.last_offset < log_start
                ORDER BY f.last_offset
                LIMIT p_limit - removed
            ) AS r
        );
    GET DIAGNOSTICS removed_transactions = ROW_COUNT;
    removed := removed + removed_transactions;
    IF removed < p_limit THEN
        UPDATE streamhouse_internal.partitions AS p SET purged_offset = log_start
        WHERE p.topic_id = place.topic_id AND p.partition = place.partition;
    END IF;
END
$function$;

-- Remove at most p_limit rows of one deleted topic. released: objects that rows were of; for
-- release_objects. any_left is false if
-- there is none that has any, or somebody else is at it; removed may be 0 all the same.
--
-- Nobody else changes these rows, and nothing is added to them: who adds holds the lock of a partition.
CREATE FUNCTION streamhouse_internal.purge_topic(
    p_limit int, OUT any_left boolean, OUT removed int, OUT released bigint[]
)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $function$
DECLARE
    gone uuid;
    places tid[];
BEGIN
    removed := 0;
    SELECT d.topic_id INTO gone FROM streamhouse_internal.topics_deleted AS d
    WHERE NOT d.purged
    ORDER BY d.topic_id
    LIMIT 1
    FOR UPDATE SKIP LOCKED;
    any_left := FOUND;
    IF NOT any_left THEN
        RETURN;
    END IF;

    WITH deleted AS (
        DELETE FROM streamhouse_internal.segments AS s
        WHERE s.ctid = ANY (ARRAY(
            SELECT f.ctid FROM streamhouse_internal.segments AS f
            WHERE f.topic_id = gone
            ORDER BY f.partition, f.end_offset
            LIMIT p_limit
        ))
        RETURNING s.object_id
    )
    SELECT count(*), array_agg(DISTINCT d.object_id) INTO removed, released FROM deleted AS d;
    places := ARRAY(
        SELECT f.ctid FROM streamhouse_internal.aborted_transactions AS f
        WHERE f.topic_id = gone
        ORDER BY f.partition, f.last_offset
        LIMIT p_limit - removed
    );
    DELETE FROM streamhouse_internal.aborted_transactions AS a WHERE a.ctid = ANY (places);
    removed := removed + cardinality(places);
    places := ARRAY(
        SELECT f.ctid FROM streamhouse_internal.producers AS f
        WHERE f.topic_id = gone
        ORDER BY f.partition, f.producer_id
        LIMIT p_limit - removed
    );
    DELETE FROM streamhouse_internal.producers AS s WHERE s.ctid = ANY (places);
    removed := removed + cardinality(places);
    IF removed < p_limit THEN
        DELETE FROM streamhouse_internal.storage_tasks AS t WHERE t.topic_id = gone;
        UPDATE streamhouse_internal.topics_deleted AS d SET purged = true WHERE d.topic_id = gone;
    END IF;
END
$function$;

-- Look at p_visited producers' states behind a key; remove at most p_limit that nobody wrote with for so
-- long, unless a transaction of the producer is open there. next_*: the key to go on behind; null at the
-- end.
CREATE FUNCTION streamhouse_internal.expire_producers(
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
    DELETE FROM streamhouse_internal.producers AS s WHERE s.ctid = ANY (doomed);
    removed := cardinality(doomed);
END
$function$;

-- Look at p_limit objects behind an id; doom those that have been live for so long, and that no row of
-- the index names. next_id: to go on behind; null at the end.
-- A commit makes an object live and writes its rows at once, and never again: so one that is live
-- without rows stays so.
CREATE FUNCTION streamhouse_internal.doom_unneeded_objects(
    p_after bigint, p_age interval, p_limit int, OUT next_id bigint, OUT doomed int
)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $function$
DECLARE
    visited CONSTANT bigint[] := ARRAY(
        SELECT o.object_id FROM streamhouse_internal.objects AS o
        WHERE o.object_id > p_after
        ORDER BY o.object_id
        LIMIT p_limit
    );
BEGIN
    next_id := visited[p_limit];
    doomed := streamhouse_internal.release_objects(ARRAY(
        SELECT w.object_id
        FROM unnest(visited) AS w (object_id)
        CROSS JOIN LATERAL (
            SELECT FROM streamhouse_internal.objects AS f
            WHERE f.object_id = w.object_id AND f.state = 'live'
                AND f.created_at <= clock_timestamp() - p_age
            OFFSET 0
        ) AS o
        WHERE NOT EXISTS (
            SELECT FROM streamhouse_internal.segments AS s WHERE s.object_id = w.object_id
            OFFSET 0
        )
    ));
END
$function$;

-- Remove a topic, its partitions, and all that groups and transactions know of it; false if there is no
-- such topic. Others see all of it, or nothing. Whoever reads the index goes by the partition's row, so
-- the rest cannot be seen any more, either; purge_topic takes it away.
--
-- When the topic's row is gone, no group can commit its first offset of the topic any more, nor keep one
-- for a transaction; so the groups that have to be locked are all there. They come after the partitions,
-- as they do where a transaction ends.
CREATE OR REPLACE FUNCTION streamhouse_internal.delete_topic(p_topic_id uuid) RETURNS boolean
LANGUAGE plpgsql VOLATILE
AS $function$
DECLARE
    deleted_version bigint;
    committed_by text[];
BEGIN
    deleted_version := streamhouse_internal.next_version();
    DELETE FROM streamhouse_internal.topics WHERE topic_id = p_topic_id;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM FROM streamhouse_internal.partitions WHERE topic_id = p_topic_id
    ORDER BY partition  -- as commits do: no deadlock
    FOR UPDATE;
    committed_by := ARRAY(
        SELECT o.group_id
        FROM (
            SELECT g.group_id, g.committed_offset FROM streamhouse_internal.group_offsets AS g
            WHERE g.topic_id::text = p_topic_id::text
            UNION ALL
            SELECT t.group_id, t.committed_offset FROM streamhouse_internal.transaction_offsets AS t
            WHERE t.topic_id::text = p_topic_id::text
            OFFSET 0
        ) AS o
        WHERE o.committed_offset IS NOT NULL  -- it always is; but no index has it, to be read as a whole
        GROUP BY o.group_id
        ORDER BY o.group_id
    );
    PERFORM
    FROM unnest(committed_by) AS w (group_id)
    CROSS JOIN LATERAL (
        SELECT FROM streamhouse_internal.groups AS g WHERE g.group_id = w.group_id
        FOR NO KEY UPDATE
    ) AS locked;
    UPDATE streamhouse_internal.groups AS g SET touched_at = clock_timestamp()
    WHERE g.group_id = ANY (committed_by);
    DELETE FROM streamhouse_internal.group_offsets WHERE topic_id::text = p_topic_id::text;
    DELETE FROM streamhouse_internal.transaction_offsets WHERE topic_id::text = p_topic_id::text;
    DELETE FROM streamhouse_internal.transaction_partitions
    WHERE topic_id = p_topic_id AND first_offset IS NOT NULL;  -- the others mean nothing any more
    DELETE FROM streamhouse_internal.partitions WHERE topic_id = p_topic_id;
    INSERT INTO streamhouse_internal.topics_deleted (topic_id, version)
    VALUES (p_topic_id, deleted_version);
    RETURN true;
END
$function$;

CREATE OR REPLACE VIEW streamhouse.segments AS
SELECT
    t.name AS topic, s.partition, s.start_offset, s.end_offset, o.path, s.byte_start, s.byte_length,
    s.max_timestamp_ms, s.topic_id, s.index_length IS NOT NULL AS built
FROM streamhouse_internal.segments AS s
JOIN streamhouse_internal.topics AS t USING (topic_id)
LEFT JOIN streamhouse_internal.objects AS o USING (object_id);

CREATE VIEW streamhouse.objects AS
SELECT path, state, size, created_at FROM streamhouse_internal.objects;

COMMENT ON VIEW streamhouse.segments IS
    'Which bytes of which object hold which offsets (inclusive); no object holds the markers that end '
    'transactions. built: an object of this partition alone, in its final form';
COMMENT ON VIEW streamhouse.objects IS
    'One row per object of the store: pending is reserved for an upload, live is part of a log, doomed '
    'is about to be removed; size is in bytes';
