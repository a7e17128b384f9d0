-- InitProducerId was the one step of a transaction that nothing kept from being carried out late: its
-- session stands still, the client hears of no coordinator, asks again and is given an epoch; then the
-- first question is carried out after all, and fences the client that asked both.

-- drawn_producer_id: what the last who started anew had drawn in case that a new id was needed. Ids
-- ascend in the order in which they are drawn, whichever broker draws them (0017, 0027).
ALTER TABLE streamhouse_internal.transactions ADD COLUMN drawn_producer_id bigint NOT NULL DEFAULT -1;

-- Give a transactional id its next epoch, or a new one p_fresh_producer_id; nothing else may have it.
-- p_expected_id, p_expected_epoch: null if the client does not say what it calls itself. Then it is
-- fenced if it drew p_fresh_producer_id before another who did not say so, either, and was here first.
-- verdict: 0 done, 2 fenced, 4 a transaction is open; producer_id and producer_epoch: 0 of the client
-- from now on, 4 of the open transaction, else null.
CREATE OR REPLACE FUNCTION streamhouse_internal.init_transactional_producer(
    p_transactional_id text, p_timeout_ms int, p_expected_id bigint, p_expected_epoch int,
    p_fresh_producer_id bigint,
    OUT verdict smallint, OUT producer_id bigint, OUT producer_epoch int
)
LANGUAGE plpgsql VOLATILE
AS $function$
DECLARE
    done CONSTANT smallint := 0;
    fenced CONSTANT smallint := 2;
    still_open CONSTANT smallint := 4;
    last_epoch CONSTANT int := 32766;
    found_id streamhouse_internal.transactions;
BEGIN
    LOOP
        SELECT t.* INTO found_id FROM streamhouse_internal.transactions AS t
        WHERE t.transactional_id = p_transactional_id
        FOR UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO streamhouse_internal.transactions (
            transactional_id, producer_id, producer_epoch, timeout_ms, updated_at, drawn_producer_id
        )
        VALUES (
            p_transactional_id, p_fresh_producer_id, 0, p_timeout_ms, clock_timestamp(),
            p_fresh_producer_id
        )
        ON CONFLICT (transactional_id) DO NOTHING;
        IF FOUND THEN
            verdict := done;
            producer_id := p_fresh_producer_id;
            producer_epoch := 0;
            RETURN;
        END IF;  -- else somebody has made it this very moment
    END LOOP;

    IF p_expected_id IS NULL AND p_fresh_producer_id < found_id.drawn_producer_id THEN
        verdict := fenced;
        RETURN;
    ELSIF p_expected_id = found_id.last_producer_id AND p_expected_epoch = found_id.last_producer_epoch
        AND found_id.state <> 'Ongoing' THEN
        verdict := done;  -- the client's own change, of which it has not heard
        producer_id := found_id.producer_id;
        producer_epoch := found_id.producer_epoch;
        UPDATE streamhouse_internal.transactions AS t
        SET state = 'Empty', timeout_ms = p_timeout_ms, updated_at = clock_timestamp()
        WHERE t.transactional_id = p_transactional_id;
        RETURN;
    ELSIF p_expected_id <> found_id.producer_id OR p_expected_epoch <> found_id.producer_epoch THEN
        verdict := fenced;
        RETURN;
    ELSIF found_id.state = 'Ongoing' THEN
        verdict := still_open;
        producer_id := found_id.producer_id;
        producer_epoch := found_id.producer_epoch;
        RETURN;
    END IF;
    UPDATE streamhouse_internal.transactions AS t SET
        producer_id = CASE
            WHEN t.producer_epoch < last_epoch THEN t.producer_id ELSE p_fresh_producer_id
        END,
        producer_epoch = CASE WHEN t.producer_epoch < last_epoch THEN t.producer_epoch + 1 ELSE 0 END,
        last_producer_id = coalesce(p_expected_id, -1),
        last_producer_epoch = coalesce(p_expected_epoch, -1),
        state = 'Empty',
        timeout_ms = p_timeout_ms,
        updated_at = clock_timestamp(),
        drawn_producer_id = CASE
            WHEN p_expected_id IS NULL THEN p_fresh_producer_id ELSE t.drawn_producer_id
        END
    WHERE t.transactional_id = p_transactional_id
    RETURNING t.producer_id, t.producer_epoch INTO producer_id, producer_epoch;
    verdict := done;
END
$function$;
