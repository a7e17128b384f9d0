"""Topic policies as the product reads them from configs; tests change what they are about."""

from collections.abc import Mapping
from uuid import UUID

from broker.configs.broker_configs import read_broker_config
from storage.configs.topic_policies import topic_policy
from storage.metadata.topics import Topic
from storage.upkeep.policies import TopicPolicy


def read_policy(
    name: str, partition_count: int = 1, configs: Mapping[str, str] | None = None
) -> TopicPolicy:
    """Return what a topic with these configs asks for; all others are Kafka's defaults."""
    topic = Topic(
        topic_id=UUID(int=0),
        name=name,
        partition_count=partition_count,
        replication_factor=1,
        configs=configs or {},
    )
    return topic_policy(topic, read_broker_config({}).topic_values)
