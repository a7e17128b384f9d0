-- A cluster has one object store. A broker that is sent to another one, which is empty, must not leave
-- the cluster's mark there, too: nobody else could read what it acknowledges. So the id in the mark of
-- the cluster's store is known here, too. Null until a broker has found or left the mark.
ALTER TABLE streamhouse_internal.cluster ADD COLUMN store_id text;

-- A mark that was left before there were such ids has the cluster's for it. A cluster without any object
-- may be a new one, which has left none yet.
UPDATE streamhouse_internal.cluster SET store_id = cluster_id
WHERE EXISTS (SELECT FROM streamhouse_internal.objects);
