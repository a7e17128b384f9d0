-- Consumer groups and their committed offsets (D9). A group has one owner at a time: the last who took
-- it, known by its owner epoch.
--
-- The lock of a group's row guards the group and all its offsets: whoever changes either holds it, and
-- whoever needs several takes them in the order of their ids. What else is waited for, delete_topic
-- waits for before it takes groups, and no holder of a group waits for at all. Hence no deadlock, and
-- commits of offsets and of records never meet.

-- Every taking of any group gets a number of its own, under the group's lock; so a group that is made
-- again under an old name has an epoch that no earlier owner of that name can hold. Nothing is ordered
-- by it but the takings of one group.
CREATE SEQUENCE streamhouse_internal.group_owner_epochs;

-- From group_type to document: null together, as long as no generation was ever saved. document is
-- text, not jsonb, because it has to come back as it went in, and jsonb refuses U+0000.
-- empty_since: since when it has had no member; null if it has some, or no record.
-- touched_at: when the record was written, the group taken, or offsets taken from it.
CREATE TABLE streamhouse_internal.groups (
    group_id text COLLATE "C" PRIMARY KEY,
    owner_epoch bigint NOT NULL,
    group_type text,
    state text,
    protocol_type text,
    generation_id int,
    member_count int,
    document text,
    empty_since timestamptz,
    touched_at timestamptz NOT NULL,
    CHECK (
        num_nulls(group_type, state, protocol_type, generation_id, member_count, document) IN (0, 6)
    )
) WITH (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);

-- Nothing that a commit changes is indexed and pages have room, so an update stays in its page (HOT).
-- That is why there is no index on committed_at: whoever looks for old offsets goes by groups.
CREATE TABLE streamhouse_internal.group_offsets (
    group_id text COLLATE "C" NOT NULL,
    topic_id uuid NOT NULL,
    partition int NOT NULL,
    committed_offset bigint NOT NULL,
    leader_epoch int NOT NULL,
    metadata text NOT NULL,
    committed_at timestamptz NOT NULL,
    PRIMARY KEY (group_id, topic_id, partition)
) WITH (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX group_offsets_topic ON streamhouse_internal.group_offsets (topic_id);

-- Become the owner of groups; p_create makes those that do not exist. p_group_ids: ascending, none
-- twice. A row of the table for each that is ours now.
CREATE FUNCTION streamhouse_internal.take_groups(p_group_ids text[], p_create boolean)
RETURNS SETOF streamhouse_internal.groups
LANGUAGE plpgsql VOLATILE
AS $function$
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
        PERFORM
        FROM unnest(p_group_ids) WITH ORDINALITY AS w (group_id, i)
        CROSS JOIN LATERAL (
            SELECT FROM streamhouse_internal.groups AS g WHERE g.group_id = w.group_id
            FOR NO KEY UPDATE
        ) AS locked;
        RETURN QUERY
        UPDATE streamhouse_internal.groups AS g SET
            owner_epoch = nextval('streamhouse_internal.group_owner_epochs'),
            touched_at = clock_timestamp()
        WHERE g.group_id = ANY (p_group_ids)
        RETURNING g.*;
    END IF;
END
$function$;

-- Save records and commit offsets of several groups: one call, one transaction.
--
--   p_group_ids, p_owner_epochs                    per group: ascending, none twice
--   p_group_types, p_states, p_protocol_types,     per group: its record; document is null where there
--   p_generation_ids, p_member_counts, p_documents is none
--   p_topic_ids, p_notes                           what the next arrays speak of: topics and metadata
--   p_groups, p_topics, p_partitions, p_offsets,   per offset: indexes (from 1) of its group, topic
--   p_leader_epochs, p_metadata                    and metadata; no partition twice in a group
--
-- fenced: indexes of groups of which nothing was written, because they have another owner epoch, or
-- are gone. unknown: indexes of offsets whose partition does not exist.
--
-- Each statement has a snapshot of its own (read committed), so what is read under the groups' locks
-- is what the last writer left. Rows are reached from the arrays, by key, as in commit_object.
--
-- A partition that the group has committed before exists: its topic's deletion needs the lock of this
-- group. For all others the topic's row is locked against deletion. If that is not to be had at once,
-- the topic is just being deleted, and counts as gone: waiting for it could be a deadlock.
CREATE FUNCTION streamhouse_internal.write_groups(
    p_group_ids text[], p_owner_epochs bigint[],
    p_group_types text[], p_states text[], p_protocol_types text[],
    p_generation_ids int[], p_member_counts int[], p_documents text[],
    p_topic_ids uuid[], p_notes text[],
    p_groups int[], p_topics int[], p_partitions int[], p_offsets bigint[],
    p_leader_epochs int[], p_metadata int[],
    OUT fenced int[], OUT unknown int[]
)
LANGUAGE plpgsql VOLATILE
AS $function$
DECLARE
    owned boolean[];
    first_commits int[];  -- indexes of offsets of partitions that their group has none of
    needed_topics int[];
    partition_counts int[];  -- per topic: null where it was not needed, or does not exist
    right_now timestamptz;
BEGIN
    SELECT  -- the rows are locked as they are reached, in the order of the arrays: no deadlock
        array_agg(coalesce(l.owner_epoch = w.owner_epoch, false) ORDER BY w.i)
    INTO owned
    FROM unnest(p_group_ids, p_owner_epochs) WITH ORDINALITY AS w (group_id, owner_epoch, i)
    LEFT JOIN LATERAL (
        SELECT g.owner_epoch
        FROM streamhouse_internal.groups AS g
        WHERE g.group_id = w.group_id
        FOR NO KEY UPDATE
    ) AS l ON true;
    right_now := clock_timestamp();
    fenced := array_positions(owned, false);
    unknown := '{}';

    IF array_remove(p_documents, NULL) <> '{}' THEN
        INSERT INTO streamhouse_internal.groups AS g (
            group_id, owner_epoch, group_type, state, protocol_type, generation_id, member_count,
            document, empty_since, touched_at
        )
        SELECT
            w.group_id, w.owner_epoch, w.group_type, w.state, w.protocol_type, w.generation_id,
            w.member_count, w.document, CASE WHEN w.member_count = 0 THEN right_now END, right_now
        FROM unnest(
            p_group_ids, p_owner_epochs, p_group_types, p_states, p_protocol_types, p_generation_ids,
            p_member_counts, p_documents, owned
        ) AS w (
            group_id, owner_epoch, group_type, state, protocol_type, generation_id, member_count,
            document, owned
        )
        WHERE w.owned AND w.document IS NOT NULL  -- they are locked: the insert is always an update
        ON CONFLICT (group_id) DO UPDATE SET
            group_type = excluded.group_type,
            state = excluded.state,
            protocol_type = excluded.protocol_type,
            generation_id = excluded.generation_id,
            member_count = excluded.member_count,
            document = excluded.document,
            empty_since = CASE
                WHEN excluded.member_count = 0 THEN coalesce(g.empty_since, excluded.empty_since)
            END,
            touched_at = excluded.touched_at;
    END IF;

    IF cardinality(p_groups) = 0 THEN
        RETURN;
    END IF;
    SELECT coalesce(array_agg(w.i), '{}'), array_agg(DISTINCT w.topic)
    INTO first_commits, needed_topics
    FROM unnest(p_groups, p_topics, p_partitions)
        WITH ORDINALITY AS w (group_index, topic, partition, i)
    LEFT JOIN LATERAL (
        SELECT true AS found
        FROM streamhouse_internal.group_offsets AS o
        WHERE o.group_id = p_group_ids[w.group_index] AND o.topic_id = p_topic_ids[w.topic]
            AND o.partition = w.partition
        OFFSET 0
    ) AS earlier ON true
    WHERE owned[w.group_index] AND earlier.found IS NULL;

    IF first_commits <> '{}' THEN
        SELECT array_agg(t.partition_count ORDER BY w.i) INTO partition_counts
        FROM unnest(p_topic_ids) WITH ORDINALITY AS w (topic_id, i)
        LEFT JOIN LATERAL (
            SELECT found.partition_count
            FROM streamhouse_internal.topics AS found
            WHERE found.topic_id = w.topic_id AND w.i = ANY (needed_topics)
            FOR KEY SHARE SKIP LOCKED
        ) AS t ON true;
        SELECT coalesce(array_agg(f.i), '{}') INTO unknown
        FROM unnest(first_commits) AS f (i)
        WHERE (p_partitions[f.i] BETWEEN 0 AND partition_counts[p_topics[f.i]] - 1) IS NOT TRUE;
    END IF;

    INSERT INTO streamhouse_internal.group_offsets (
        group_id, topic_id, partition, committed_offset, leader_epoch, metadata, committed_at
    )
    SELECT
        p_group_ids[w.group_index], p_topic_ids[w.topic], w.partition, w.committed_offset,
        w.leader_epoch, p_notes[w.note], right_now
    FROM unnest(p_groups, p_topics, p_partitions, p_offsets, p_leader_epochs, p_metadata)
        WITH ORDINALITY
        AS w (group_index, topic, partition, committed_offset, leader_epoch, note, i)
    WHERE owned[w.group_index] AND (unknown = '{}' OR w.i <> ALL (unknown))
    ON CONFLICT (group_id, topic_id, partition) DO UPDATE SET
        committed_offset = excluded.committed_offset,
        leader_epoch = excluded.leader_epoch,
        metadata = excluded.metadata,
        committed_at = excluded.committed_at;
END
$function$;

-- Remove a group and its offsets; false if somebody else owns it, or it is gone.
CREATE FUNCTION streamhouse_internal.delete_group(p_group_id text, p_owner_epoch bigint)
RETURNS boolean
LANGUAGE plpgsql VOLATILE
AS $function$
BEGIN
    PERFORM FROM streamhouse_internal.groups AS g
    WHERE g.group_id = p_group_id AND g.owner_epoch = p_owner_epoch
    FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM streamhouse_internal.group_offsets AS o WHERE o.group_id = p_group_id;
    DELETE FROM streamhouse_internal.groups AS g WHERE g.group_id = p_group_id;
    RETURN true;
END
$function$;

-- Forget offsets of a group; false if somebody else owns it, or it is gone.
CREATE FUNCTION streamhouse_internal.delete_group_offsets(
    p_group_id text, p_owner_epoch bigint, p_topic_ids uuid[], p_partitions int[]
) RETURNS boolean
LANGUAGE plpgsql VOLATILE
AS $function$
BEGIN
    UPDATE streamhouse_internal.groups AS g SET touched_at = clock_timestamp()
    WHERE g.group_id = p_group_id AND g.owner_epoch = p_owner_epoch;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM streamhouse_internal.group_offsets AS o
    USING unnest(p_topic_ids, p_partitions) AS w (topic_id, partition)
    WHERE o.group_id = p_group_id AND o.topic_id = w.topic_id AND o.partition = w.partition;
    RETURN true;
END
$function$;

-- Forget what has had its time, of at most p_max_groups groups from p_from on, and at most
-- p_max_offsets offsets. next_group: where to go on; null at the end. A group that somebody holds is
-- left for the next time, so this waits for nobody.
CREATE FUNCTION streamhouse_internal.expire_group_offsets(
    p_retention interval, p_from text, p_max_groups int, p_max_offsets int,
    OUT next_group text, OUT offset_count int, OUT group_count int
)
LANGUAGE plpgsql VOLATILE
AS $function$
DECLARE
    oldest CONSTANT timestamptz := clock_timestamp() - p_retention;
    visited text[];
    locked text[];
    doomed tid[];
    lost record;
BEGIN
    visited := ARRAY(
        SELECT g.group_id FROM streamhouse_internal.groups AS g
        WHERE g.group_id >= p_from
        ORDER BY g.group_id
        LIMIT p_max_groups + 1
    );
    next_group := visited[p_max_groups + 1];
    offset_count := 0;
    group_count := 0;

    locked := ARRAY(
        SELECT l.group_id
        FROM unnest(visited[:p_max_groups]) AS w (group_id)
        CROSS JOIN LATERAL (
            SELECT g.group_id
            FROM streamhouse_internal.groups AS g
            WHERE g.group_id = w.group_id AND (
                ((g.empty_since < oldest OR g.document IS NULL) AND EXISTS (
                    SELECT FROM streamhouse_internal.group_offsets AS o
                    WHERE o.group_id = w.group_id AND o.committed_at < oldest
                    OFFSET 0
                ))
                OR (g.touched_at < oldest AND (g.document IS NULL OR g.state = 'Empty') AND NOT EXISTS (
                    SELECT FROM streamhouse_internal.group_offsets AS o
                    WHERE o.group_id = w.group_id
                    OFFSET 0
                ))
            )
            FOR UPDATE OF g SKIP LOCKED
        ) AS l
    );
    doomed := ARRAY(
        SELECT o.place
        FROM unnest(locked) AS w (group_id)
        CROSS JOIN LATERAL (
            SELECT found.empty_since, found.document IS NULL AS without_record
            FROM streamhouse_internal.groups AS found
            WHERE found.group_id = w.group_id
            OFFSET 0
        ) AS g
        CROSS JOIN LATERAL (
            SELECT found.ctid AS place
            FROM streamhouse_internal.group_offsets AS found
            WHERE found.group_id = w.group_id AND found.committed_at < oldest
                AND (g.empty_since < oldest OR g.without_record)
            OFFSET 0
        ) AS o
        LIMIT p_max_offsets
    );
    FOR lost IN
        WITH deleted AS (
            DELETE FROM streamhouse_internal.group_offsets AS o WHERE o.ctid = ANY (doomed)
            RETURNING o.group_id, o.committed_at
        )
        SELECT d.group_id, count(*) AS offsets, max(d.committed_at) AS newest
        FROM deleted AS d
        GROUP BY d.group_id
    LOOP
        offset_count := offset_count + lost.offsets;
        UPDATE streamhouse_internal.groups AS g SET touched_at = lost.newest
        WHERE g.group_id = lost.group_id AND g.touched_at < lost.newest;
    END LOOP;
    IF cardinality(doomed) = p_max_offsets THEN
        next_group := p_from;  -- there may be more of them
        RETURN;
    END IF;
    DELETE FROM streamhouse_internal.groups AS g
    WHERE g.group_id = ANY (locked) AND g.touched_at < oldest
        AND (g.document IS NULL OR g.state = 'Empty')
        AND NOT EXISTS (
            SELECT FROM streamhouse_internal.group_offsets AS o
            WHERE o.group_id = g.group_id
            OFFSET 0
        );
    GET DIAGNOSTICS group_count = ROW_COUNT;
END
$function$;

-- As before (0003), and the topic's committed offsets go with it. When its row is gone, no group can
-- commit its first offset of the topic any more; so the groups that have to be locked are all there,
-- and they are before the partitions are, for which commits of records wait.
CREATE OR REPLACE FUNCTION streamhouse_internal.delete_topic(p_topic_id uuid) RETURNS boolean
LANGUAGE plpgsql VOLATILE
AS $function$
DECLARE
    deleted_version bigint;
    committed_by text[];
BEGIN
    DELETE FROM streamhouse_internal.segments WHERE topic_id = p_topic_id;
    deleted_version := streamhouse_internal.next_version();
    DELETE FROM streamhouse_internal.topics WHERE topic_id = p_topic_id;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    committed_by := ARRAY(
        SELECT DISTINCT o.group_id FROM streamhouse_internal.group_offsets AS o
        WHERE o.topic_id = p_topic_id
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
    DELETE FROM streamhouse_internal.group_offsets WHERE topic_id = p_topic_id;
    PERFORM FROM streamhouse_internal.partitions WHERE topic_id = p_topic_id
    ORDER BY partition  -- as commits do: no deadlock
    FOR UPDATE;
    DELETE FROM streamhouse_internal.segments WHERE topic_id = p_topic_id;
    DELETE FROM streamhouse_internal.producers WHERE topic_id = p_topic_id;
    DELETE FROM streamhouse_internal.partitions WHERE topic_id = p_topic_id;
    INSERT INTO streamhouse_internal.topics_deleted (topic_id, version)
    VALUES (p_topic_id, deleted_version);
    RETURN true;
END
$function$;

CREATE VIEW streamhouse.groups AS
SELECT
    group_id, coalesce(group_type, 'Classic') AS group_type, coalesce(state, 'Empty') AS state,
    coalesce(protocol_type, '') AS protocol_type, coalesce(member_count, 0) AS member_count,
    coalesce(generation_id, 0) AS generation_id
FROM streamhouse_internal.groups;

CREATE VIEW streamhouse.group_offsets AS
SELECT
    o.group_id, t.name AS topic, o.partition, o.committed_offset, o.leader_epoch, o.metadata,
    o.committed_at, o.topic_id
FROM streamhouse_internal.group_offsets AS o
JOIN streamhouse_internal.topics AS t USING (topic_id);

-- The oldest record that was not read lies in the first run that ends at or after the committed offset,
-- or the log start offset if that has overtaken it.
CREATE VIEW streamhouse.group_lag AS
SELECT
    o.group_id, t.name AS topic, o.partition, o.committed_offset,
    p.high_watermark AS log_end_offset,
    greatest(p.high_watermark - greatest(o.committed_offset, p.log_start_offset), 0) AS lag,
    CASE
        WHEN p.high_watermark <= o.committed_offset THEN 0
        WHEN s.max_timestamp_ms >= 0
            THEN greatest(round(extract(epoch FROM now()) - s.max_timestamp_ms / 1000.0, 3), 0)
    END AS lag_seconds,
    o.topic_id
FROM streamhouse_internal.group_offsets AS o
JOIN streamhouse_internal.topics AS t USING (topic_id)
JOIN streamhouse_internal.partitions AS p USING (topic_id, partition)
LEFT JOIN LATERAL (
    SELECT found.max_timestamp_ms
    FROM streamhouse_internal.segments AS found
    WHERE found.topic_id = o.topic_id AND found.partition = o.partition
        AND found.end_offset >= greatest(o.committed_offset, p.log_start_offset)
    ORDER BY found.end_offset
    LIMIT 1
) AS s ON true;

COMMENT ON VIEW streamhouse.groups IS 'One row per consumer group, as its coordinator last saved it';
COMMENT ON VIEW streamhouse.group_offsets IS 'Where each group goes on reading each partition';
COMMENT ON VIEW streamhouse.group_lag IS
    'What each group has still to read: in records, and how many seconds ago the oldest of them was '
    'produced (null if its batch has no timestamp)';
