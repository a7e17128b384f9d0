"""Topics that a client names, as far as ACLs let it do something with them."""

from collections.abc import Hashable
from dataclasses import dataclass
from uuid import UUID

from broker.requests import Request
from broker.security.authorizer import Authorizer
from broker.topics import KnownTopic
from protocol.acl import Operation, ResourceType


@dataclass(frozen=True, slots=True)
class VisibleTopics:
    """The names of topics that a client may describe, as ACLs are when one is looked for.

    Attributes:
        principal, host: of the client, as its session has them; that may have ended.
    """

    authorizer: Authorizer
    principal: str
    host: str

    @property
    def edition(self) -> Hashable:
        """Return what decides which they are."""
        return self.authorizer.edition, self.authorizer.kind_of(self, ResourceType.TOPIC)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.authorizer.shows(self, ResourceType.TOPIC, name)


async def find_topic(
    request: Request, operation: Operation, name: str = "", topic_id: UUID | None = None
) -> KnownTopic | None:
    """Return the topic with that id or name, which the client may do that with.

    Raises:
        Refusal: TOPIC_AUTHORIZATION_FAILED; by name, whether or not there is such a topic, and
            before anybody looks.
        MetadataUnavailable: it is not known here, and Postgres could not be asked.
    """
    if topic_id is None:
        request.authorize(operation, ResourceType.TOPIC, name)
    topic = await request.services.topics.find(name, topic_id)
    if topic_id is not None and topic is not None:
        request.authorize(operation, ResourceType.TOPIC, topic.topic.name)
    return topic
