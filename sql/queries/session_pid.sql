-- The process that serves this session.
SELECT pg_backend_pid() AS pid
