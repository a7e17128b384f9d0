-- Let the server notice within half a second, while it runs a statement, that the broker is gone.
-- An error where the server's platform cannot do it.
SELECT set_config('client_connection_check_interval', '500ms', false)
