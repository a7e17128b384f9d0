-- How many bytes each topic has in the object store by the index, and, without a topic, how many all
-- objects have. It reads every row of both.
-- Function: migrations/0028_stored_bytes.sql
SELECT topic, size FROM streamhouse_internal.find_stored_bytes()
