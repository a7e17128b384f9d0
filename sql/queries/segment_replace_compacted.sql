-- As segment_replace, for an object that has not all records of the rows: it is noted when that was.
SELECT replaced, released
FROM streamhouse_internal.replace_compacted_segments(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14
)
