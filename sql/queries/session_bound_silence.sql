-- Let the server end this session, and free what it has locked, when its client says nothing in a
-- transaction, or is not there any more; whatever is set for the role.
-- $1 idle_in_transaction_session_timeout: text with units.
SELECT
    set_config('idle_in_transaction_session_timeout', $1, false),
    set_config('tcp_keepalives_idle', '10', false),
    set_config('tcp_keepalives_interval', '5', false),
    set_config('tcp_keepalives_count', '3', false),
    set_config('tcp_user_timeout', '20s', false)
