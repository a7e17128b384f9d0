"""The metadata port's configs of everything but topics: what was set while the cluster runs.

Contract, checked for Postgres and for the in-memory fake by tests/contracts/test_entity_configs.py:
- All changes of one call happen together, or none.
- Versions are those of the metadata, shared with topics: each call takes the next one, and who asks
  for changes with the version of the last answer misses nothing, unless another server answers
  (see topics.py).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from storage.metadata.changes import Changes


class EntityKind(StrEnum):
    """What has configs, and what its name is.

    Attributes:
        ACL: a pattern of resources, in the form of broker/security/acls.py; who may do what with
        them.
        BROKER: a node id, or the empty name for the whole cluster (KIP-226).
        BROKER_START: a node id; what it was started with (broker/configs/start_settings.py).
        CLIENT_METRICS: of a subscription (KIP-714).
        CLIENT_QUOTA: a user, client id or ip, or some of them, in the form of broker/quotas.
        DATABASE: the empty name; whether it was set back (broker/set_back.py).
        GROUP: a group id (KIP-848).
        SCRAM: a user; its credentials by mechanism (KIP-554).
    """

    ACL = "acl"
    BROKER = "broker"
    BROKER_START = "broker-start"
    CLIENT_METRICS = "client-metrics"
    CLIENT_QUOTA = "client-quota"
    DATABASE = "database"
    GROUP = "group"
    SCRAM = "scram"


@dataclass(frozen=True, slots=True)
class Entity:
    """One thing that has configs."""

    kind: EntityKind
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityChange:
    """What to set (a string) or unset (None) of one entity.

    Attributes:
        replace: unset all that `changes` does not name.
        expected: all that has to be set of it as yet; None is whatever is.
    """

    entity: Entity
    changes: Mapping[str, str | None]
    replace: bool = False
    expected: Mapping[str, str] | None = None


EntityConfigValues = Mapping[Entity, Mapping[str, str]]
"""The configs of each entity as they are now; empty where everything was unset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityChanges(Changes):
    """What was altered since some version of the metadata."""

    configs: EntityConfigValues


class EntityConfigStore(Protocol):
    """See the module's docstring for what every implementation promises."""

    async def entity_config_changes(self, since_version: int) -> EntityChanges:
        """Return the configs of all entities (since_version=0), or of those altered after it."""

    async def alter_entity_configs(self, changes: Sequence[EntityChange]) -> EntityConfigValues:
        """Alter the configs of entities, no two of them the same; return them as they are now.

        Raises:
            ConfigsChanged: something else than what is expected is set of one of them.
            MetadataUnavailable: no answer; all of it was done, or nothing.
        """
