"""Computing on the log with Spark.

- `session` builds the session, `progress` reports what its queries do.
- `sources` read topics: `kafka` through brokers with Spark's own connector, `streamhouse` without
  any: the driver plans from the index in Postgres, executors get ranges of objects from the store.
- `sinks` write topics without brokers, and tables exactly once.
- `tables` are pure functions DataFrame -> DataFrame; `jobs` do all input and output, one program
  each, the same for what is there (bounded) and what is still to come (unbounded).

Needs Java 17 and the extra `spark`. Nothing of the broker imports this package.
"""
