-- Make objects live that rows of the index name; the others stay pending, for the sweeper to give up.
UPDATE streamhouse_internal.objects AS o
SET state = 'live'
WHERE o.state = 'pending' AND EXISTS (
    SELECT FROM streamhouse_internal.segments AS s WHERE s.object_id = o.object_id
)
