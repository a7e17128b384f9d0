"""Topics: made, listed, described, grown, deleted, and every way to ask for what cannot be."""

from typing import Final

from tests.oracle.calls import calls_of

_topics: Final = calls_of("topics")

CALLS: Final = (
    _topics(
        "topics-create",
        "--create --topic $run-orders --partitions 3 --replication-factor 1",
        r"^Created topic RUN-orders\.$",
        given=True,
    ),
    _topics(
        "topics-create-with-defaults",
        "--create --topic $run-plain",
        r"^Created topic RUN-plain\.$",
        given=True,
    ),
    _topics(
        "topics-create-with-configs",
        "--create --topic $run-compacted --partitions 2"
        " --config cleanup.policy=compact --config segment.bytes=1048576",
        r"^Created topic RUN-compacted\.$",
        given=True,
    ),
    _topics(
        "topics-create-with-assignment",
        "--create --topic $run-placed --replica-assignment 0,0",
        r"^Created topic RUN-placed\.$",
        given=True,
    ),
    _topics("topics-create-with-a-dot", "--create --topic $run.dotted", "period"),
    _topics("topics-create-that-collides", "--create --topic ${run}_dotted", "collides", code=1),
    _topics(
        "topics-create-existing", "--create --topic $run-orders", "TopicExistsException", code=1
    ),
    _topics(
        "topics-create-existing-if-not-exists",
        "--create --topic $run-orders --if-not-exists",
        "exit code 0",
    ),
    _topics(
        "topics-create-no-partitions",
        "--create --topic $run-none --partitions 0",
        "partitions",
        code=1,
    ),
    _topics(
        "topics-create-too-many-replicas",
        "--create --topic $run-replicated --replication-factor 3",
        "InvalidReplicationFactorException",
        code=1,
    ),
    _topics(
        "topics-create-no-replicas",
        "--create --topic $run-replicated --replication-factor 0",
        "replication factor",
        code=1,
    ),
    _topics(
        "topics-create-on-unknown-broker",
        "--create --topic $run-elsewhere --replica-assignment 7",
        "InvalidReplicaAssignmentException",
        code=1,
    ),
    _topics(
        "topics-create-uneven-assignment",
        "--create --topic $run-uneven --replica-assignment 0:0",
        "[Dd]uplicate",
        code=1,
    ),
    _topics(
        "topics-create-bad-name", "--create --topic $run/orders", "InvalidTopicException", code=1
    ),
    _topics(
        "topics-create-long-name",
        f"--create --topic $run-{'x' * 250}",
        "InvalidTopicException",
        code=1,
    ),
    _topics("topics-create-two-dots", "--create --topic ..", "InvalidTopicException", code=1),
    _topics(
        "topics-create-unknown-config",
        "--create --topic $run-odd --config no.such.config=1",
        "no.such.config",
        code=1,
    ),
    _topics(
        "topics-create-bad-config-value",
        "--create --topic $run-odd --config retention.ms=soon",
        "ConfigException",
        code=1,
    ),
    _topics(
        "topics-create-config-out-of-range",
        "--create --topic $run-odd --config min.cleanable.dirty.ratio=2",
        "ConfigException",
        code=1,
    ),
    _topics(
        "topics-create-bad-cleanup-policy",
        "--create --topic $run-odd --config cleanup.policy=shred",
        "ConfigException",
        code=1,
    ),
    _topics(
        "topics-delete-what-only-one-has",
        "--delete --topic '$run-(replicated|elsewhere)' --if-exists",
        "exit code 0",
        given=True,
    ),
    _topics("topics-list", "--list", "^RUN-orders$"),
    _topics(
        "topics-list-some", "--list --topic '$run-(orders|plain)' --exclude-internal", "^RUN-plain$"
    ),
    _topics(
        "topics-describe",
        "--describe --topic $run-orders",
        "PartitionCount: 3 ReplicationFactor: 1",
        saves=r"TopicId: (?P<topic_id>\S+)",
        given=True,
    ),
    _topics("topics-describe-placed", "--describe --topic $run-placed", "PartitionCount: 2"),
    _topics("topics-describe-all", "--describe --exclude-internal", "RUN-compacted"),
    _topics("topics-describe-by-id", "--describe --topic-id=$topic_id", "RUN-orders"),
    _topics(
        "topics-describe-unknown-id",
        "--describe --topic-id AAAAAAAAAAAAAAAAAAAABQ",
        "does not exist",
        code=1,
    ),
    _topics(
        "topics-describe-overrides", "--describe --topics-with-overrides", "cleanup.policy=compact"
    ),
    _topics(
        "topics-describe-under-replicated",
        "--describe --under-replicated-partitions",
        "exit code 0",
    ),
    _topics("topics-describe-unavailable", "--describe --unavailable-partitions", "exit code 0"),
    _topics(
        "topics-describe-under-min-isr", "--describe --under-min-isr-partitions", "exit code 0"
    ),
    _topics(
        "topics-describe-at-min-isr",
        "--describe --at-min-isr-partitions --topic $run-orders",
        "RUN-orders",
    ),
    _topics(
        "topics-describe-paged",
        "--describe --exclude-internal --partition-size-limit-per-response 2",
        "RUN-orders",
    ),
    _topics("topics-describe-unknown", "--describe --topic $run-unknown", "does not exist", code=1),
    _topics(
        "topics-describe-unknown-if-exists",
        "--describe --topic $run-unknown --if-exists",
        "exit code 0",
    ),
    _topics("topics-alter", "--alter --topic $run-plain --partitions 4", "exit code 0"),
    _topics("topics-describe-grown", "--describe --topic $run-plain", "PartitionCount: 4"),
    _topics(
        "topics-alter-to-the-same",
        "--alter --topic $run-plain --partitions 4",
        "InvalidPartitionsException",
        code=1,
    ),
    _topics(
        "topics-alter-to-fewer",
        "--alter --topic $run-plain --partitions 2",
        "InvalidPartitionsException",
        code=1,
    ),
    _topics(
        "topics-alter-with-assignment",
        "--alter --topic $run-plain --partitions 5 --replica-assignment 0,0,0,0,0",
        "exit code 0",
    ),
    _topics(
        "topics-alter-on-unknown-broker",
        "--alter --topic $run-plain --partitions 6 --replica-assignment 0,0,0,0,0,7",
        "InvalidReplicaAssignmentException",
        code=1,
    ),
    _topics(
        "topics-alter-unknown",
        "--alter --topic $run-unknown --partitions 4",
        "does not exist",
        code=1,
    ),
    _topics("topics-delete", "--delete --topic $run-placed", "exit code 0"),
    _topics("topics-delete-several", "--delete --topic '$run-(compacted|plain)'", "exit code 0"),
    _topics("topics-delete-unknown", "--delete --topic $run-placed", "does not exist", code=1),
    _topics(
        "topics-delete-unknown-if-exists", "--delete --topic $run-placed --if-exists", "exit code 0"
    ),
    _topics("topics-list-after-deletes", "--list --exclude-internal", "^RUN-orders$"),
)
