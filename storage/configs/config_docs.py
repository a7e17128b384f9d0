"""What each config is for: the documentation that DescribeConfigs v3 answers (KIP-569)."""

from typing import Final

_NO_FILES = " No effect here: records lie in object storage."
NO_REPLICAS: Final = " No effect here: the object store keeps the copies."

TOPIC_DOCS: Final = {
    "cleanup.policy": "What happens to old records: delete removes them by age and size, compact"
    " keeps the last one of each key, both together do both; an empty list keeps all.",
    "compression.gzip.level": "The level if compression.type is gzip; -1 is the codec's own.",
    "compression.lz4.level": "The level if compression.type is lz4.",
    "compression.type": "The codec that batches are kept with once they are built into"
    " segments; producer keeps what the producer chose.",
    "compression.zstd.level": "The level if compression.type is zstd.",
    "confluent.key.schema.validation": "Whether keys must begin with the id of a schema that is"
    " registered under the topic's subject.",
    "confluent.key.subject.name.strategy": "How the subject is named that the schemas of keys must"
    " be registered under, if confluent.key.schema.validation is true.",
    "confluent.value.schema.validation": "Whether values must begin with the id of a schema that is"
    " registered under the topic's subject.",
    "confluent.value.subject.name.strategy": "How the subject is named that the schemas of values"
    " must be registered under, if confluent.value.schema.validation is true.",
    "delete.retention.ms": "How long compaction keeps the null value that deletes a key.",
    "file.delete.delay.ms": "The time from a segment's end to its file's deletion. No effect here:"
    " an object may hold records of many topics; STREAMHOUSE_UPKEEP__DELETE_DELAY_MS is for all.",
    "flush.messages": "Records between two flushes. No effect here: a record is durable before"
    " its reply.",
    "flush.ms": "Time between two flushes. No effect here: a record is durable before its reply.",
    "follower.replication.throttled.replicas": "Replicas, as partition:broker, that followers"
    " fetch slowly." + NO_REPLICAS,
    "index.interval.bytes": "Bytes between two entries of an offset index." + _NO_FILES,
    "leader.replication.throttled.replicas": "Replicas, as partition:broker, that leaders send"
    " slowly." + NO_REPLICAS,
    "local.retention.bytes": "Bytes of a tiered log that stay on a broker's disk; -2 follows"
    " retention.bytes." + _NO_FILES,
    "local.retention.ms": "How long a tiered log stays on a broker's disk; -2 follows"
    " retention.ms." + _NO_FILES,
    "max.compaction.lag.ms": "A record older than this is compacted however clean the log is, once"
    " its segment is built.",
    "max.message.bytes": "The largest record batch that is accepted, in bytes as they are sent.",
    "message.timestamp.after.max.ms": "How far a producer's timestamp may lie ahead of the"
    " broker's clock (KIP-937).",
    "message.timestamp.before.max.ms": "How far a producer's timestamp may lie behind the"
    " broker's clock (KIP-937).",
    "message.timestamp.type": "CreateTime keeps the producer's timestamps, LogAppendTime sets the"
    " broker's.",
    "min.cleanable.dirty.ratio": "The part of a log that must be new before it is compacted.",
    "min.compaction.lag.ms": "A record younger than this is not compacted.",
    "min.insync.replicas": "Replicas that must have a record of acks=all." + NO_REPLICAS,
    "preallocate": "Whether a segment's file gets its full size at once." + _NO_FILES,
    "remote.log.copy.disable": "Stops tiered storage from taking more records." + _NO_FILES,
    "remote.log.delete.on.disable": "Deletes what is tiered when tiering ends." + _NO_FILES,
    "remote.storage.enable": "Kafka's tiered storage (KIP-405). Stays false: all records lie in"
    " object storage anyway.",
    "retention.bytes": "Bytes of each partition that the delete policy keeps; negative: all. Looked"
    " at every log.retention.check.interval.ms.",
    "retention.ms": "How long the delete policy keeps records; -1 is for ever. Looked at every"
    " log.retention.check.interval.ms.",
    "segment.bytes": "A segment is built from records when there are so many bytes of them; it"
    " takes as many at most, and never more than STREAMHOUSE_UPKEEP__SEGMENT_BYTES.",
    "segment.index.bytes": "The size of a segment's offset index." + _NO_FILES,
    "segment.jitter.ms": "A random part taken off segment.ms, so that not all end at once."
    + _NO_FILES,
    "segment.ms": "A segment is built when the oldest record that is in none was written so long"
    " ago, or STREAMHOUSE_UPKEEP__SEGMENT_AGE_MS.",
    "unclean.leader.election.enable": "Whether a lagging replica may lead. No effect here but as a"
    " setting of a broker's start: whether it starts on a metadata database that has forgotten"
    " records.",
}

CLUSTER_DOCS: Final = {
    "follower.replication.throttled.rate": "Bytes a second that followers fetch of throttled"
    " replicas." + NO_REPLICAS,
    "leader.replication.throttled.rate": "Bytes a second that leaders send of throttled"
    " replicas." + NO_REPLICAS,
    "log.cleaner.backoff.ms": "How often topics to compact are looked for.",
    "log.flush.scheduler.interval.ms": "Stands in for log.flush.interval.ms. No effect here: a"
    " record is durable before its reply.",
    "log.retention.hours": "Stands in for log.retention.minutes, in hours.",
    "log.retention.minutes": "Stands in for log.retention.ms, in minutes.",
    "log.roll.hours": "Stands in for log.roll.ms, in hours.",
    "log.roll.jitter.hours": "Stands in for log.roll.jitter.ms, in hours." + _NO_FILES,
    "max.connection.creation.rate": "New connections a second above which they are"
    " served later, or closed.",
    "max.connections": "The most connections open at a time.",
    "max.connections.per.ip": "The most connections open at a time from one address.",
    "producer.id.expiration.ms": "How long the state of an idempotent producer is kept that does"
    " not write to the partition.",
    "replica.alter.log.dirs.io.max.bytes.per.second": "Bytes a second of replicas that move to"
    " another log directory." + NO_REPLICAS,
}
"""Of broker configs that stand in storage/configs/cluster_config_table.py, but for those topics
follow.
"""
