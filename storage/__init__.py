"""The log: what is durable, and how it is written and read.

Produce: writer.append (buffer, seal) -> objects.put -> metadata.commit_object = durable.
Fetch: log.read_tail -> tail; else log.read_store -> reader (its docstring has the map of the rest).

    objects/     the object store port (D3): a directory, S3
    metadata/    the metadata port (D2), in Postgres; postgres/ is the server itself
    reading/     what is no longer in the tail: index rows, ranged GETs, the block cache
    upkeep/      builder, compaction, retention, sweeper (D6)
    configs/     what topics and the cluster may have set
    recovery/ fsck/    what an operator needs when a part was lost
"""
