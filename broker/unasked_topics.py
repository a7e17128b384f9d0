"""Topics that are created because somebody asks about them (auto.create.topics.enable)."""

from typing import Final

from kio.schema.errors import ErrorCode

from broker.refusals import Refusal
from broker.requests import Request
from broker.topic_requests import NewTopic, plan_topics
from broker.topics import KnownTopic
from storage.errors import TopicAlreadyExists

NEVER_UNASKED: Final = frozenset({"__consumer_offsets", "__transaction_state"})
"""Where Kafka keeps groups and transactions. Monitors look for them, and would find ordinary topics
of these names, for good, to which nobody writes. CreateTopics makes them for who asks it to."""


async def create_unasked(request: Request, name: str) -> KnownTopic:
    """Create a topic that a client wants to know about, as CreateTopics would.

    Raises:
        Refusal: that would not.
        MetadataUnavailable: no answer; it may be there or not.
    """
    services = request.services
    new = NewTopic(name=name, partition_count=-1, replication_factor=-1)
    plan = plan_topics([new], services.topics.names.like(name), services.config)[name]
    if isinstance(plan, Refusal):
        raise plan
    # No version of Metadata has an error code for that; the client waits after its request.
    request.mutate(plan.partition_count, refused_from=request.version + 1)
    try:
        return await services.topics.change(
            services.metadata.create_topic(
                name,
                partition_count=plan.partition_count,
                replication_factor=plan.replication_factor,
                configs=plan.configs,
            )
        )
    except TopicAlreadyExists:  # another client was faster
        await services.topics.refresh()
        topic = services.topics.get(name)
        if topic is None:
            raise Refusal(ErrorCode.leader_not_available) from None
        return topic
