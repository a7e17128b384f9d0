"""The cluster: its brokers, versions, features and quorum; where replicas are and who leads."""

from typing import Final

from tests.oracle.calls import Call, calls_of

_acls: Final = calls_of("acls")
_broker_api_versions: Final = calls_of("broker-api-versions")
_cluster: Final = calls_of("cluster")
_console_producer: Final = calls_of("console-producer")
_delegation_tokens: Final = calls_of("delegation-tokens")
_features: Final = calls_of("features")
_leader_election: Final = calls_of("leader-election")
_log_dirs: Final = calls_of("log-dirs")
_metadata_quorum: Final = calls_of("metadata-quorum")
_reassign_partitions: Final = calls_of("reassign-partitions")
_topics: Final = calls_of("topics")

_REASSIGNMENT: Final = (
    '{"version": 1, "partitions":'
    ' [{"topic": "$run-placed-here", "partition": 0, "replicas": [%s]}]}'
)


def _reassign(name: str, arguments: str, shows: str, *, code: int = 0, replicas: str = "0") -> Call:
    return Call(
        name=f"reassign-{name}",
        tool="reassign-partitions",
        arguments=arguments,
        files={"moves.json": _REASSIGNMENT % replicas},
        shows=shows,
        code=code,
    )


_FACTS: Final = (
    _topics(
        "cluster-topic",
        "--create --topic $run-placed-here --partitions 2",
        "Created topic",
        given=True,
    ),
    _broker_api_versions("broker-api-versions", "", r"Produce\(0\): 0 to 13"),
    _cluster("cluster-id", "cluster-id", "^Cluster ID: ID$"),
    _cluster("cluster-endpoints", "list-endpoints", "broker"),
    _cluster("cluster-endpoints-fenced", "list-endpoints --include-fenced-brokers", "unfenced"),
    _cluster(
        "cluster-unregister-unknown", "unregister --id 7", "BrokerIdNotRegisteredException", code=1
    ),
    _features("features-describe", "describe", "Feature: metadata.version"),
    _features(
        "features-upgrade-to-the-same",
        "upgrade --feature group.version=1",
        "^group.version was upgraded to 1",
    ),
    _features("features-upgrade-unknown", "upgrade --feature odd.version=1", "odd.version", code=1),
    _features(
        "features-upgrade-too-high",
        "upgrade --feature transaction.version=9",
        "transaction.version",
        code=1,
    ),
    _features(
        "features-upgrade-dry-run",
        "upgrade --feature transaction.version=2 --dry-run",
        "transaction.version",
    ),
    _features(
        "features-downgrade-unsafe", "downgrade --metadata 3.3-IV3", "metadata.version", code=1
    ),
    _metadata_quorum(
        "metadata-quorum-status", "describe --status", "^LeaderId:", numbers_hidden=True
    ),
    _metadata_quorum(
        "metadata-quorum-replication", "describe --replication", "Leader", numbers_hidden=True
    ),
    _metadata_quorum(
        "metadata-quorum-replication-readable",
        "describe --replication --human-readable",
        "ms ago",
        numbers_hidden=True,
    ),
    _metadata_quorum(
        "metadata-quorum-remove-controller",
        "remove-controller --controller-id 7 --controller-directory-id AAAAAAAAAAAAAAAAAAAABQ",
        "VoterNotFoundException",
        code=1,
    ),
    _log_dirs(
        "log-dirs", "--describe --topic-list $run-placed-here", '"partition":"RUN-placed-here-1"'
    ),
    _console_producer(
        "log-dirs-records",
        "--topic $run-stored --sync",
        "exit code 0",
        stdin="one\ntwo\n",
    ),
    _log_dirs(
        "log-dirs-with-records", "--describe --topic-list $run-stored", '"RUN-stored-0","size":N'
    ),
    _log_dirs("log-dirs-unknown-topic", "--describe --topic-list $run-no", '"partitions":\\[\\]'),
    _log_dirs(
        "log-dirs-of-broker",
        "--describe --broker-list 0 --topic-list $run-placed-here",
        '"broker":0',
    ),
    _log_dirs("log-dirs-unknown-broker", "--describe --broker-list 7", "7", code=1),
)
_MOVES: Final = (
    _leader_election(
        "leader-election-preferred",
        "--election-type PREFERRED --topic $run-placed-here --partition 0",
        "Valid replica already elected",
    ),
    _leader_election(
        "leader-election-of-all", "--election-type PREFERRED --all-topic-partitions", "exit code 0"
    ),
    _leader_election(
        "leader-election-unclean",
        "--election-type UNCLEAN --topic $run-placed-here --partition 1",
        "Valid replica already elected",
    ),
    _leader_election(
        "leader-election-unknown",
        "--election-type PREFERRED --topic $run-no --partition 0",
        "UnknownTopicOrPartition",
        code=1,
    ),
    _leader_election(
        "leader-election-by-file",
        "--election-type preferred --path-to-json-file $files/elect.json",
        "UnknownTopicOrPartition",
        files={
            "elect.json": '{"partitions": [{"topic": "$run-placed-here", "partition": 0},'
            '{"topic": "$run-placed-here", "partition": 9}]}'
        },
        code=1,
    ),
    _reassign_partitions(
        "reassign-generate",
        "--generate --topics-to-move-json-file $files/topics.json --broker-list 0",
        "Proposed partition reassignment configuration",
        files={"topics.json": '{"version": 1, "topics": [{"topic": "$run-placed-here"}]}'},
    ),
    _reassign_partitions(
        "reassign-generate-unknown-topic",
        "--generate --topics-to-move-json-file $files/unknown.json --broker-list 0",
        "UnknownTopicOrPartition",
        files={"unknown.json": '{"version": 1, "topics": [{"topic": "$run-no"}]}'},
        code=1,
    ),
    _reassign_partitions(
        "reassign-generate-unknown-broker",
        "--generate --topics-to-move-json-file $files/topics.json --broker-list 7",
        "InvalidReplicationFactorException",
        files={"topics.json": '{"version": 1, "topics": [{"topic": "$run-placed-here"}]}'},
        code=1,
    ),
    _reassign(
        "execute",
        "--execute --reassignment-json-file $files/moves.json",
        "Successfully started partition reassignment",
    ),
    _reassign(
        "verify",
        "--verify --reassignment-json-file $files/moves.json",
        "is completed",
    ),
    _reassign("list", "--list", "No partition reassignments found"),
    _reassign(
        "cancel",
        "--cancel --reassignment-json-file $files/moves.json",
        "None of the specified partition moves are active",
    ),
    _reassign(
        "execute-throttled",
        "--execute --reassignment-json-file $files/moves.json --throttle 1000000",
        "throttle",
    ),
    _reassign(
        "verify-throttled",
        "--verify --reassignment-json-file $files/moves.json",
        "Clearing broker-level throttles",
    ),
    _reassign(
        "execute-unknown-broker",
        "--execute --reassignment-json-file $files/moves.json",
        "Unknown broker id 7",
        code=1,
        replicas="7",
    ),
    _reassign_partitions(
        "reassign-execute-unknown-topic",
        "--execute --reassignment-json-file $files/moves.json",
        "$run-no|RUN-no",
        files={
            "moves.json": '{"version": 1, "partitions":'
            ' [{"topic": "$run-no", "partition": 0, "replicas": [0]}]}'
        },
        code=1,
    ),
    _reassign_partitions(
        "reassign-execute-log-dir",
        "--execute --reassignment-json-file $files/moves.json",
        "LogDirNotFoundException",
        files={
            "moves.json": '{"version": 1, "partitions": [{"topic": "$run-placed-here",'
            ' "partition": 0, "replicas": [0], "log_dirs": ["/no/such/directory"]}]}'
        },
        code=1,
        timeout_s=20,
    ),
)
_SECURITY: Final = (
    _acls("acls-list", "--list", "SecurityDisabledException", code=1),
    _acls(
        "acls-add",
        "--add --allow-principal User:alice --operation Read --topic $run-orders",
        "SecurityDisabledException",
        code=1,
    ),
    _acls(
        "acls-remove",
        "--remove --force --allow-principal User:alice --operation Read --topic $run-orders",
        "SecurityDisabledException",
        code=1,
    ),
    _delegation_tokens(
        "delegation-tokens-describe",
        "--describe --command-config $files/none",
        "UnsupportedByAuthenticationException",
        files={"none": ""},
        code=1,
    ),
    _delegation_tokens(
        "delegation-tokens-create",
        "--create --max-life-time-period -1 --command-config $files/none",
        "UnsupportedByAuthenticationException",
        files={"none": ""},
        code=1,
    ),
    _delegation_tokens(
        "delegation-tokens-renew",
        "--renew --renew-time-period -1 --hmac AAAA --command-config $files/none",
        "UnsupportedByAuthenticationException",
        files={"none": ""},
        code=1,
    ),
    _delegation_tokens(
        "delegation-tokens-expire",
        "--expire --expiry-time-period -1 --hmac AAAA --command-config $files/none",
        "UnsupportedByAuthenticationException",
        files={"none": ""},
        code=1,
    ),
)
CALLS: Final = (*_FACTS, *_MOVES, *_SECURITY)
