"""All topics as the groups see them, made anew only after a change."""

from broker.topics import Topics
from coordinator.catalog import Catalog, CatalogTopic


class GroupCatalog:
    """The catalog of the topics that this broker knows."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._catalog: Catalog | None = None

    async def refresh(self) -> None:
        """Ask Postgres for news: a group that moved here must not miss a topic that it had there.

        Raises:
            MetadataUnavailable: no answer.
        """
        await self._topics.refresh()

    def current(self) -> Catalog:
        """Return the topics as they are now."""
        catalog = self._catalog
        if catalog is None or catalog.version != self._topics.change_count:
            catalog = self._catalog = self._make()
        return catalog

    def _make(self) -> Catalog:
        topics = [
            CatalogTopic(
                topic_id=known.topic.topic_id,
                name=known.topic.name,
                partition_count=known.topic.partition_count,
            )
            for known in self._topics.all()
        ]
        return Catalog(
            version=self._topics.change_count,
            by_name={topic.name: topic for topic in topics},
            by_id={topic.topic_id: topic for topic in topics},
        )
