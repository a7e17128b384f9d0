-- A topic of 247 to 249 characters that was made again got a folder whose name no file system takes: its
-- segments could not be stored in a directory.

-- Reserve a path for a segment of a partition; null if the partition is gone.
-- The name tells the range; one that may have been reserved before also has 8 digits of chance, since
-- rows of objects are removed with them, and somebody may still remember what was there.
-- A folder's name has at most the 255 bytes that file systems take: a topic's name, which is ASCII, is
-- cut to make room for what tells it from another.
CREATE OR REPLACE FUNCTION streamhouse_internal.reserve_segment(
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
            VALUES (
                'topics/' || left(topic_name, 255 - length(discriminator)) || discriminator, p_topic_id
            )
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
