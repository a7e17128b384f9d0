-- What aborted transactions wrote into a range of offsets, in the order of their last offsets; and how
-- many aborted transactions this server knows of in the partition, and where its log begins, with each
-- row, and alone in one if there are no others. No row if there is no such partition.
-- $1 topic_id uuid, $2 partition int; $3 first offset bigint, $4 one past the last bigint;
-- $5 most of them int.
-- Function: migrations/0007_transactions.sql
SELECT p.aborted_count, p.log_start_offset, a.producer_id, a.first_offset, a.last_offset
FROM (
    SELECT
        found.aborted_count + found.aborted_beyond AS aborted_count, found.log_start_offset
    FROM streamhouse_internal.partitions AS found
    WHERE found.topic_id = $1 AND found.partition = $2
    OFFSET 0
) AS p
LEFT JOIN LATERAL streamhouse_internal.find_aborted_transactions($1, $2, $3, $4, $5) AS a ON true
