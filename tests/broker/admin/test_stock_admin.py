"""The administrative client of confluent-kafka against the broker."""

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tests.support.broker import BrokerProcess


@pytest.fixture
def admin(admin_broker: BrokerProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": admin_broker.bootstrap})


def test_a_topic_lives_from_creation_to_deletion(admin: AdminClient, name: str) -> None:
    # When a topic is created, it is described as asked for
    created = NewTopic(name, num_partitions=2, config={"cleanup.policy": "compact"})
    admin.create_topics([created])[name].result(10)
    description = admin.describe_topics(TopicCollection([name]))[name].result(10)
    assert len(description.partitions) == 2

    # When it grows and its configs change, that shows
    admin.create_partitions([NewPartitions(name, 4)])[name].result(10)
    resource = ConfigResource(ConfigResource.Type.TOPIC, name)
    resource.add_incremental_config(
        ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.APPEND)
    )
    admin.incremental_alter_configs([resource])[resource].result(10)
    described = ConfigResource(ConfigResource.Type.TOPIC, name)
    configs = admin.describe_configs([described])[described].result(10)
    assert configs["cleanup.policy"].value == "compact,delete"
    assert configs["retention.ms"].is_default
    assert len(admin.describe_topics(TopicCollection([name]))[name].result(10).partitions) == 4

    # When it is deleted, it is gone
    admin.delete_topics([name])[name].result(10)
    assert name not in admin.list_topics(timeout=10).topics


def test_refusals_reach_the_caller_with_code_and_reason(admin: AdminClient, name: str) -> None:
    wrong = NewTopic(name, num_partitions=1, config={"retention.ms": "soon"})
    with pytest.raises(KafkaException) as refused:
        admin.create_topics([wrong])[name].result(10)
    error = refused.value.args[0]
    assert error.code() == KafkaError.INVALID_CONFIG
    assert "retention.ms" in error.str()


def test_the_broker_is_described(admin: AdminClient) -> None:
    cluster = admin.describe_cluster().result(10)
    assert [node.id for node in cluster.nodes] == [0]
    resource = ConfigResource(ConfigResource.Type.BROKER, "0")
    configs = admin.describe_configs([resource])[resource].result(10)
    assert configs["num.partitions"].value == "3"
    assert configs["delete.topic.enable"].is_read_only
