-- Settings of a broker's session. They bound how long a statement can outlive the broker that sent it;
-- what makes that harmless is commit_object's idempotence, not these.
-- $1 statement_timeout, $2 lock_timeout, $3 idle_in_transaction_session_timeout: text with units.
-- A transaction_timeout of the role, which Postgres has since 17, counts for nothing: it would end what is
-- given more time (session_allow_time), and it ends the session, so that nobody knows what was done.
-- SET cannot be prepared, and startup parameters are refused by poolers: hence set_config.
-- A commit must be durable when it is answered (D7), whatever the role's defaults are.
-- Plans are made once and use keys only: one made for an empty table must do for a full one. (Joins
-- are written so that they leave no choice, see commit_object.)
SELECT
    set_config('statement_timeout', $1, false),
    set_config('lock_timeout', $2, false),
    set_config('idle_in_transaction_session_timeout', $3, false),
    CASE WHEN current_setting('transaction_timeout', true) IS NOT NULL
        THEN set_config('transaction_timeout', '0', false)
    END,
    set_config('tcp_keepalives_idle', '10', false),
    set_config('tcp_keepalives_interval', '5', false),
    set_config('tcp_keepalives_count', '3', false),
    set_config('tcp_user_timeout', '20s', false),
    set_config('default_transaction_isolation', 'read committed', false),
    set_config(
        'synchronous_commit',
        CASE current_setting('synchronous_commit')
            WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit')
        END,
        false
    ),
    set_config('plan_cache_mode', 'force_generic_plan', false),
    set_config('enable_seqscan', 'off', false),
    set_config('enable_bitmapscan', 'off', false),
    set_config('jit', 'off', false),
    pg_is_in_recovery() AS is_standby
