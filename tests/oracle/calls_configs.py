"""Configs of every entity type: topics, brokers, their loggers, groups, client metrics."""

from collections.abc import Callable
from typing import Final

from tests.oracle.calls import Call, calls_of

_topics: Final = calls_of("topics")
_configs: Final = calls_of("configs", names="configs-")


def _entity(kind: str, name: str, prefix: str) -> Callable[..., Call]:
    entity = f"--entity-type {kind} {name}"
    return calls_of("configs", names=f"configs-{prefix}-", entity=entity)


_topic: Final = _entity("topics", "--entity-name $run-configured", "topic")
_broker: Final = _entity("brokers", "--entity-name 0", "broker")
_brokers: Final = _entity("brokers", "--entity-default", "brokers")
_group: Final = _entity("groups", "--entity-name $run-configured", "group")
_metrics: Final = calls_of("client-metrics", names="client-metrics-")
_SUBSCRIPTION: Final = "org.apache.kafka.producer."
_TOPICS: Final = (
    _topics(
        "configs-topic",
        "--create --topic $run-configured --config retention.ms=3600000",
        "Created topic",
        given=True,
    ),
    _topic("describe", "--describe", "retention.ms=3600000"),
    _topic("describe-all", "--describe --all", "retention.ms=3600000"),
    _topic("alter", "--alter --add-config retention.ms=86400000", "^Completed updating"),
    _topic(
        "alter-several",
        "--alter --add-config cleanup.policy=[compact,delete],max.message.bytes=2000000"
        " --delete-config retention.ms",
        "^Completed updating",
    ),
    _topic("describe-altered", "--describe", "cleanup.policy=compact,delete"),
    _configs(
        "topic-alter-by-file",
        "--entity-type topics --entity-name $run-configured --alter"
        " --add-config-file $files/topic.properties",
        "^Completed updating",
        files={"topic.properties": "segment.ms=100000\ncompression.type=zstd\n"},
    ),
    _topic("describe-from-file", "--describe", "compression.type=zstd"),
    _topic("delete-config", "--alter --delete-config segment.ms", "^Completed updating"),
    _topic("delete-unset", "--alter --delete-config flush.ms", "^Completed updating"),
    _topic("delete-unknown", "--alter --delete-config no.such.config", "^Completed updating"),
    _topic("unknown-name", "--alter --add-config no.such.config=1", "InvalidConfiguration", code=1),
    _topic("bad-value", "--alter --add-config retention.ms=soon", "InvalidConfiguration", code=1),
    _topic("bad-range", "--alter --add-config segment.bytes=1", "InvalidConfiguration", code=1),
    _topic("bad-boolean", "--alter --add-config preallocate=2", "InvalidConfiguration", code=1),
    _topic("bad-min-insync", "--alter --add-config min.insync.replicas=0", "InvalidConfig", code=1),
    _topic(
        "bad-codec", "--alter --add-config compression.type=zip", "InvalidConfiguration", code=1
    ),
    _topic("bad-syntax", "--alter --add-config retention.ms", "Invalid", code=1),
    _configs(
        "topics-describe-all-topics",
        "--entity-type topics --describe",
        "Dynamic configs for topic RUN-configured are",
        order_hidden=True,
    ),
    _configs(
        "topic-unknown", "--entity-type topics --entity-name $run-no --describe", "doesn't exist"
    ),
    _configs(
        "topic-alter-unknown",
        "--entity-type topics --entity-name $run-no --alter --add-config retention.ms=1000",
        "UnknownTopicOrPartition",
        code=1,
    ),
)
_BROKERS: Final = (
    _broker("describe", "--describe", "Dynamic configs for broker 0 are"),
    _broker("describe-all", "--describe --all", "^ num.partitions=1 "),
    _brokers("describe-default", "--describe", "Default configs for brokers"),
    _broker("alter", "--alter --add-config message.max.bytes=3000000", "^Completed updating"),
    _broker("describe-altered", "--describe", "^ message.max.bytes=3000000", repeats=True),
    _broker("delete-config", "--alter --delete-config message.max.bytes", "^Completed updating"),
    _broker("for-all", "--alter --add-config log.retention.ms=900000000", "exit code"),
    _broker("delete-for-all", "--alter --delete-config log.retention.ms", "^Completed updating"),
    _brokers("alter-default", "--alter --add-config message.max.bytes=2000000", "^Completed"),
    _brokers("describe-altered", "--describe", "^ message.max.bytes=2000000", repeats=True),
    _brokers("delete-default", "--alter --delete-config message.max.bytes", "^Completed"),
    _broker("read-only", "--alter --add-config broker.id=5", "InvalidRequest|Cannot", code=1),
    _broker("not-dynamic", "--alter --add-config num.partitions=5", "Invalid|Cannot", code=1),
    _broker("unknown-name", "--alter --add-config no.such.config=1", "exit code"),
    _broker("delete-unknown", "--alter --delete-config no.such.config", "^Completed updating"),
    _broker("bad-value", "--alter --add-config log.retention.ms=soon", "Invalid", code=1),
    _configs("broker-unknown", "--entity-type brokers --entity-name 7 --describe", "broker .7"),
    _configs(
        "broker-bad-name",
        "--entity-type brokers --entity-name first --describe",
        "must be a valid integer broker id",
        code=1,
    ),
    _configs(
        "brokers-describe-all",
        "--entity-type brokers --describe",
        "Dynamic configs for broker 0 are",
        order_hidden=True,
    ),
    _configs(
        "loggers-describe",
        "--entity-type broker-loggers --entity-name 0 --describe",
        "Dynamic configs for broker-logger 0 are",
    ),
    _configs(
        "loggers-unknown",
        "--entity-type broker-loggers --entity-name 0 --alter --add-config no.such.logger=INFO",
        "Invalid broker logger",
        code=1,
    ),
)
_GROUPS: Final = (
    _group("alter", "--alter --add-config consumer.session.timeout.ms=50000", "^Completed"),
    _group("describe", "--describe", "consumer.session.timeout.ms=50000"),
    _group("describe-all", "--describe --all", "consumer.heartbeat.interval.ms="),
    _group("unknown-name", "--alter --add-config no.such.config=1", "InvalidConfig", code=1),
    _group(
        "bad-value",
        "--alter --add-config consumer.session.timeout.ms=1",
        "InvalidConfiguration",
        code=1,
    ),
    _configs(
        "groups-describe", "--entity-type groups --describe", "RUN-configured", order_hidden=True
    ),
    _group("delete-config", "--alter --delete-config consumer.session.timeout.ms", "^Completed"),
    _group("describe-deleted", "--describe", "exit code 0"),
    _configs(
        "group-unknown", "--entity-type groups --entity-name $run-no --describe", "exit code 0"
    ),
)
_METRICS: Final = (
    _metrics(
        "alter",
        f"--alter --name $run-sub --metrics {_SUBSCRIPTION} --interval 10000"
        " --match client_software_name=odd",
        "Altered client metrics config for RUN-sub",
    ),
    _metrics("list", "--list", "^RUN-sub$"),
    _metrics("describe", "--describe --name $run-sub", "interval.ms=10000"),
    _metrics("describe-all", "--describe", "interval.ms=10000"),
    _metrics("bad-interval", "--alter --name $run-sub --interval 1", "Invalid", code=1),
    _metrics("bad-match", "--alter --name $run-sub --match odd=1", "Invalid", code=1),
    _configs(
        "metrics-describe",
        "--entity-type client-metrics --entity-name $run-sub --describe",
        "interval.ms=10000",
    ),
    _configs(
        "metrics-alter",
        "--entity-type client-metrics --entity-name $run-sub"
        " --alter --add-config interval.ms=20000",
        "^Completed",
    ),
    _metrics("describe-unknown", "--describe --name $run-no", "exit code 0"),
    _metrics("delete", "--delete --name $run-sub", "Deleted client metrics config for RUN-sub"),
    _metrics("delete-unknown", "--delete --name $run-sub", "exit code 0"),
    _metrics("list-none", "--list", "exit code 0"),
)
CALLS: Final = (*_TOPICS, *_BROKERS, *_GROUPS, *_METRICS)
