"""One request for each API that wants an operation on the cluster, in a version."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from tests.broker.admin.wire import TIMEOUT, Api

TOPIC = "refused"

FILTER: Final[Mapping[str, Any]] = {
    "resource_type_filter": 2,
    "resource_name_filter": TOPIC,
    "pattern_type_filter": 3,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
CREATION: Final[Mapping[str, Any]] = {
    "resource_type": 2,
    "resource_name": TOPIC,
    "resource_pattern_type": 3,
    "principal": "User:alice",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}


def _describe_acls(api: Api) -> Any:
    return api.request(**FILTER)


def _create_acls(api: Api) -> Any:
    return api.request(creations=(api.part("AclCreation", **CREATION),) * 2)


def _delete_acls(api: Api) -> Any:
    return api.request(filters=(api.part("DeleteAclsFilter", **FILTER),) * 2)


def _alter_replica_log_dirs(api: Api) -> Any:
    topic = api.part("AlterReplicaLogDirTopic", name=TOPIC, partitions=(0, 1))
    return api.request(dirs=(api.part("AlterReplicaLogDir", path="/", topics=(topic,)),))


def _describe_log_dirs(api: Api) -> Any:
    return api.request(topics=None)


def _elect_leaders(api: Api) -> Any:
    topic = api.part("TopicPartitions", topic=TOPIC, partitions=(0, 1))
    return api.request(election_type=0, topic_partitions=(topic,), timeout=TIMEOUT)


def _alter_reassignments(api: Api) -> Any:
    partition = api.part("ReassignablePartition", partition_index=0, replicas=(0,))
    topic = api.part("ReassignableTopic", name=TOPIC, partitions=(partition,))
    return api.request(timeout=TIMEOUT, topics=(topic,), allow_replication_factor_change=True)


def _list_reassignments(api: Api) -> Any:
    return api.request(timeout=TIMEOUT, topics=None)


def _describe_quotas(api: Api) -> Any:
    return api.request(components=(), strict=False)


def _alter_quotas(api: Api) -> Any:
    operation = api.part("OpData", key="producer_byte_rate", value=1.0, remove=False)
    entity = api.part("EntityData", entity_type="user", entity_name="refused")
    entry = api.part("EntryData", entity=(entity,), ops=(operation,))
    return api.request(entries=(entry,), validate_only=False)


def _describe_scram(api: Api) -> Any:
    return api.request(users=None)


def _alter_scram(api: Api) -> Any:
    deletion = api.part("ScramCredentialDeletion", name="refused", mechanism=1)
    return api.request(deletions=(deletion,), upsertions=())


def _describe_quorum(api: Api) -> Any:
    partition = api.part("PartitionData", partition_index=0)
    topic = api.part("TopicData", topic_name="__cluster_metadata", partitions=(partition,))
    return api.request(topics=(topic,))


def _update_features(api: Api) -> Any:
    update = api.part(
        "FeatureUpdateKey",
        feature="metadata.version",
        max_version_level=1,
        allow_downgrade=False,
        upgrade_type=1,
    )
    return api.request(timeout=TIMEOUT, feature_updates=(update,), validate_only=False)


def _unregister_broker(api: Api) -> Any:
    return api.request(broker_id=7)


def _list_config_resources(api: Api) -> Any:
    return api.request(resource_types=())


REQUESTS: Final[Mapping[int, Callable[[Api], Any]]] = {
    29: _describe_acls,
    30: _create_acls,
    31: _delete_acls,
    34: _alter_replica_log_dirs,
    35: _describe_log_dirs,
    43: _elect_leaders,
    45: _alter_reassignments,
    46: _list_reassignments,
    48: _describe_quotas,
    49: _alter_quotas,
    50: _describe_scram,
    51: _alter_scram,
    55: _describe_quorum,
    57: _update_features,
    64: _unregister_broker,
    74: _list_config_resources,
}
"""By API key."""


def codes_in(answer: Any) -> list[Any]:
    """Return all error codes of an answer, at whatever depth."""
    found = []
    for name in getattr(answer, "__dataclass_fields__", ()):
        value = getattr(answer, name)
        if name == "error_code":
            found.append(value)
        elif isinstance(value, tuple):
            found += [code for each in value for code in codes_in(each)]
    return found
