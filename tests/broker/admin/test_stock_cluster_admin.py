"""The administrative client of confluent-kafka: credentials, elections, and ACLs that are not."""

from typing import Any

import pytest
from confluent_kafka import ElectionType, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # not marked as re-exports
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from confluent_kafka.cimpl import NewTopic

from tests.support.broker import BrokerProcess

ACL = (
    *(ResourceType.TOPIC, "topic", ResourcePatternType.LITERAL, "User:alice", "*"),
    *(AclOperation.READ, AclPermissionType.ALLOW),
)


@pytest.fixture
def admin(admin_broker: BrokerProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": admin_broker.bootstrap})


def test_credentials_are_set_described_and_deleted(admin: Any, name: str) -> None:
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192)
    upsertion = UserScramCredentialUpsertion(name, info, b"secret")
    admin.alter_user_scram_credentials([upsertion])[name].result(10)

    described = admin.describe_user_scram_credentials([name])[name].result(10)
    (found,) = described.scram_credential_infos
    assert (found.mechanism, found.iterations) == (ScramMechanism.SCRAM_SHA_512, 8192)
    assert name in admin.describe_user_scram_credentials().result(10)

    deletion = UserScramCredentialDeletion(name, ScramMechanism.SCRAM_SHA_512)
    admin.alter_user_scram_credentials([deletion])[name].result(10)
    with pytest.raises(KafkaException) as refused:
        admin.describe_user_scram_credentials([name])[name].result(10)
    assert refused.value.args[0].code() == KafkaError.RESOURCE_NOT_FOUND


def test_no_election_is_needed(admin: AdminClient, name: str) -> None:
    admin.create_topics([NewTopic(name, num_partitions=1)])[name].result(10)
    partition = TopicPartition(name, 0)
    for kind in (ElectionType.PREFERRED, ElectionType.UNCLEAN):
        outcome = admin.elect_leaders(kind, [partition]).result(10)[partition]
        assert outcome.code() == KafkaError.ELECTION_NOT_NEEDED
        assert admin.elect_leaders(kind).result(10) == {}


def test_acls_are_refused_with_a_reason(admin: AdminClient) -> None:
    binding = AclBinding(*ACL)
    every = AclBindingFilter(*ACL)
    created, deleted = admin.create_acls([binding])[binding], admin.delete_acls([every])[every]
    for asked in (created, deleted):
        with pytest.raises(KafkaException) as refused:
            asked.result(10)
        error = refused.value.args[0]
        assert error.code() == KafkaError.SECURITY_DISABLED
        assert "uthorizer" in error.str()
    assert admin.describe_acls(every).result(10) == []  # librdkafka drops the code, from Kafka, too


def test_a_client_learns_what_it_may_do(admin: AdminClient) -> None:
    cluster = admin.describe_cluster(include_authorized_operations=True).result(10)
    assert set(cluster.authorized_operations) == {
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
    }
