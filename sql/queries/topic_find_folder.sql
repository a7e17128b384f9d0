-- Where the segments of a topic lie; no row if it never had one.
-- $1 topic_id uuid.
SELECT folder FROM streamhouse_internal.topic_folders WHERE topic_id = $1
