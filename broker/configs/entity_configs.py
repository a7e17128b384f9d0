"""The configs of everything but topics as this broker knows them: a copy of what Postgres says.

What other brokers changed arrives with the next poll, or at once with `refresh`; a change made
here is known here, and its watchers have been told, when `alter` returns. While Postgres does not
answer, the copy stays in force.

Of thousands that change together some count before others, since requests get their turns between.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Final

from kio.schema.errors import ErrorCode

from broker.refusals import Refusal
from broker.shared_load import SharedLoad
from storage.errors import ConfigsChanged
from storage.metadata.entity_configs import (
    Entity,
    EntityChange,
    EntityConfigStore,
    EntityConfigValues,
    EntityKind,
)

POLL_S: Final = 0.5
"""An ACL, or a user that is gone, counts on every broker within a second."""

MAX_CHANGES: Final = 10_000
"""Values that one request may set and unset; Kafka's controller takes as many records."""

TAKEN_AT_ONCE: Final = 1000
"""Entities in one turn of the event loop, of ten microseconds each."""

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


Watcher = Callable[[Iterable[str]], None]
"""Is told the names of entities of its kind whose configs may have changed."""


def check_size(changes: Iterable[EntityChange]) -> None:
    """Check that one request may change as much.

    Raises:
        Refusal: POLICY_VIOLATION.
    """
    if sum(len(change.changes) for change in changes) > MAX_CHANGES:
        message = "Unable to perform excessively large batch operation."
        raise Refusal(ErrorCode.policy_violation, message)


class EntityConfigs:
    """All of them, by kind and name."""

    def __init__(self, store: EntityConfigStore) -> None:
        self._store = store
        self._configs: dict[EntityKind, dict[str, Mapping[str, str]]] = {
            kind: {} for kind in EntityKind
        }
        self._watchers: list[tuple[EntityKind, Watcher]] = []
        self._version = 0
        self._server = 0
        self._altered_here = 0
        self._taking = asyncio.Lock()  # pieces of an older answer must not come between
        self._loading = SharedLoad(self._load_changes)

    def get(self, kind: EntityKind, name: str) -> Mapping[str, str]:
        """Return what is set of an entity; empty if nothing is."""
        return self._configs[kind].get(name, _NOTHING)

    def all(self, kind: EntityKind) -> Mapping[str, Mapping[str, str]]:
        """Return what is set of each entity of that kind of which anything is, by name."""
        return self._configs[kind]

    def watch(self, kind: EntityKind, watcher: Watcher) -> None:
        """Call `watcher` after every change of that kind, from whichever broker it came."""
        self._watchers.append((kind, watcher))

    async def alter(self, changes: Sequence[EntityChange]) -> None:
        """Alter the configs of entities, no two of them the same.

        Raises:
            Refusal: POLICY_VIOLATION: more than MAX_CHANGES.
            ConfigsChanged: something else than what is expected is set of one of them.
            MetadataUnavailable: no answer; all of it was done, or nothing.
        """
        check_size(changes)
        before = self._altered_here, self._version
        try:
            altered = await self._store.alter_entity_configs(changes)
        except ConfigsChanged:
            async with self._taking:
                self._version = 0  # read all anew: Postgres may even have gone back, to a standby
            raise
        async with self._taking:
            if (self._altered_here, self._version) == before:
                self._altered_here += 1
                await self._take(altered)
                return
        await self.refresh()  # the answer may be older than what has been taken meanwhile

    async def refresh(self) -> None:
        """Bring the copy up to date with what was altered before this call.

        Raises:
            MetadataUnavailable: no answer; the copy stays as it was.
        """
        await self._loading.run()

    async def poll(self) -> None:
        """Follow the changes of other brokers until cancelled."""
        await self._loading.poll("configs", POLL_S)

    async def _load_changes(self) -> None:
        loaded = False
        while not loaded:
            altered_here, since = self._altered_here, self._version
            changes = await self._store.entity_config_changes(since)
            async with self._taking:
                contradicts = changes.may_contradict(since, self._server)
                self._server = changes.server
                if contradicts:
                    self._version = 0
                elif altered_here == self._altered_here:
                    configs = changes.configs
                    await self._take(configs if since else {**self._all_unset(), **configs})
                    self._version = changes.version
                    loaded = True
                # else the answer may be older than what was altered here meanwhile

    def _all_unset(self) -> EntityConfigValues:
        return {
            Entity(kind, name): _NOTHING
            for kind, of_kind in self._configs.items()
            for name in of_kind
        }

    async def _take(self, configs: EntityConfigValues) -> None:
        rest = iter(configs.items())
        while piece := list(islice(rest, TAKEN_AT_ONCE)):
            self._take_piece(piece)
            if len(piece) == TAKEN_AT_ONCE:
                await asyncio.sleep(0)

    def _take_piece(self, piece: Iterable[tuple[Entity, Mapping[str, str]]]) -> None:
        changed: dict[EntityKind, list[str]] = {}
        for entity, values in piece:
            of_kind = self._configs[entity.kind]
            if values == of_kind.get(entity.name, _NOTHING):
                continue
            changed.setdefault(entity.kind, []).append(entity.name)
            if values:
                of_kind[entity.name] = values
            else:
                del of_kind[entity.name]
        for kind, watcher in self._watchers:
            if kind in changed:
                watcher(changed[kind])
