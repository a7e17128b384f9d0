-- Who asks where, and to whom the brokers' schema belongs, if it is there; as SQL writes names.
SELECT
    quote_ident(current_database()) AS database,
    quote_ident(current_user) AS role,
    (
        SELECT quote_ident(pg_get_userbyid(nspowner))
        FROM pg_namespace
        WHERE nspname = 'streamhouse_internal'
    ) AS owner
