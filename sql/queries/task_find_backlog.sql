-- How much is waiting: tasks by kind, and objects that are not live. Kinds without tasks are left out.
SELECT kind AS name, count(*) AS waiting
FROM streamhouse_internal.storage_tasks
GROUP BY kind
UNION ALL
SELECT 'pending', count(*) FROM streamhouse_internal.objects WHERE state = 'pending'
UNION ALL
SELECT 'doomed', count(*) FROM streamhouse_internal.objects WHERE state = 'doomed'
