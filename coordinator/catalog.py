"""The topics, as far as assignors and subscriptions need them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogTopic:
    """A topic that exists."""

    topic_id: UUID
    name: str
    partition_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """All topics at one moment.

    Attributes:
        version: grows with every change; equal versions are equal catalogs.
        by_name: the topics, by name.
        by_id: the same, by id.
    """

    version: int
    by_name: Mapping[str, CatalogTopic]
    by_id: Mapping[UUID, CatalogTopic] = field(default_factory=dict)
