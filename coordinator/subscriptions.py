"""What members subscribe to, by name and by RE2 pattern, and what that is at one moment.

A pattern matches a topic if it matches the whole name, as in Kafka; internal topics ("__...") are
topics like all others. RE2 runs in time linear to the name, whatever the pattern.
"""

import hashlib
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final, Protocol
from uuid import UUID

import re2

from coordinator.catalog import Catalog
from coordinator.shown_topics import ShownTopics, VisibleTopics

MAX_PATTERN_BYTES: Final = 4_096
PATTERN_MEMORY_BYTES: Final = 2 * 1024 * 1024


class InvalidPattern(ValueError):
    """RE2 cannot compile it within our bounds; the text tells why."""


class Pattern(Protocol):
    """A compiled pattern."""

    def fullmatch(self, text: str) -> object | None: ...


@dataclass(frozen=True, slots=True)
class Subscription:
    """What one member subscribes to: topics it names, and those that its pattern matches.

    Attributes:
        pattern: empty for none.
        visible: of the topics that the pattern matches those that the member may know of; it gets
            no others. None where everybody may know of all topics.
    """

    names: frozenset[str] = frozenset()
    pattern: str = ""
    visible: frozenset[str] | None = None


def compile_pattern(pattern: str) -> Pattern:
    """Compile with bounded memory.

    Raises:
        InvalidPattern: too long, too complex, or not RE2.
    """
    try:
        if len(pattern.encode()) > MAX_PATTERN_BYTES:
            raise InvalidPattern(f"longer than {MAX_PATTERN_BYTES} bytes")
        options = re2.Options()
        options.max_mem = PATTERN_MEMORY_BYTES
        options.log_errors = False
        compiled: Pattern = re2.compile(pattern, options)
    except UnicodeEncodeError as error:
        raise InvalidPattern("not Unicode") from error
    except re2.error as error:
        reason = error.args[0]
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise InvalidPattern(text) from error
    return compiled


class Subscriptions:
    """Resolves subscriptions against the newest catalog; each pattern is compiled once.

    Attributes:
        shown: what they come to where ACLs decide.
    """

    def __init__(self) -> None:
        self.catalog: Catalog | None = None
        self._patterns: dict[str, Pattern] = {}
        self._matched: dict[str, frozenset[str]] = {}
        self._topic_ids: dict[Subscription, frozenset[UUID]] = {}
        self.shown = ShownTopics()

    def is_new(self, catalog: Catalog) -> bool:
        return self.catalog is None or catalog.version > self.catalog.version

    def see(self, catalog: Catalog) -> None:
        """Take a newer catalog."""
        if self._patterns:  # else nobody needs to go through all topics
            self._match(catalog)
        self._topic_ids.clear()
        self.catalog = catalog

    def _match(self, catalog: Catalog) -> None:
        """Match the patterns with the names that a newer catalog adds, without those gone."""
        known = self.catalog.by_name.keys() if self.catalog is not None else set[str]()
        appeared = catalog.by_name.keys() - known
        for text, pattern in self._patterns.items():
            stayed = self._matched[text].intersection(catalog.by_name)
            added = set(filter(pattern.fullmatch, appeared))
            if added or len(stayed) < len(self._matched[text]):
                self._matched[text] = stayed | added

    def keep(self, in_use: Collection[Subscription]) -> None:
        """Forget all but these."""
        used = {subscription.pattern for subscription in in_use}
        for text in self._patterns.keys() - used:
            del self._patterns[text], self._matched[text]
        self.shown.keep(used)
        for subscription in self._topic_ids.keys() - set(in_use):
            del self._topic_ids[subscription]

    def admit(self, pattern: str) -> None:
        """Compile a pattern unless it is known, and match it with all topics.

        Raises:
            InvalidPattern: see compile_pattern.
        """
        if not pattern or pattern in self._patterns:
            return
        compiled = compile_pattern(pattern)
        names = self.catalog.by_name if self.catalog is not None else ()
        self._matched[pattern] = frozenset(filter(compiled.fullmatch, names))
        self._patterns[pattern] = compiled

    def show(self, subscription: Subscription, visible: VisibleTopics | None) -> Subscription:
        """Return a subscription as it is for one who may know of these topics (None: of all)."""
        shown = None
        if visible is not None and subscription.pattern:
            matched = self._matched[subscription.pattern]
            shown = self.shown.find(subscription.pattern, matched, visible, subscription.visible)
        if shown is subscription.visible or shown == subscription.visible:
            return subscription
        return replace(subscription, visible=shown)

    def drop_gone(self, subscription: Subscription) -> Subscription:
        """Return a subscription without those topics shown to it that are gone."""
        if subscription.visible is None or subscription.visible <= self._matched_by(subscription):
            return subscription
        visible = subscription.visible & self._matched_by(subscription)
        return replace(subscription, visible=visible)

    def _matched_by(self, subscription: Subscription) -> frozenset[str]:
        return self._matched.get(subscription.pattern, frozenset())

    def names(self, subscription: Subscription) -> frozenset[str]:
        """Return all names subscribed to; those that are matched exist, the others may not."""
        matched = self._matched_by(subscription)
        if subscription.visible is not None:
            matched = matched & subscription.visible
        return subscription.names.union(matched)

    def topic_ids(self, subscription: Subscription) -> frozenset[UUID]:
        """Return the topics that exist; the same object for equal subscriptions."""
        found = self._topic_ids.get(subscription)
        if found is None:
            by_name = self.catalog.by_name if self.catalog is not None else {}
            names = self.names(subscription)
            found = frozenset(by_name[name].topic_id for name in names if name in by_name)
            self._topic_ids[subscription] = found
        return found

    def sizes(self, in_use: Collection[Subscription]) -> dict[UUID, int]:
        """Return the partition counts of all subscribed topics that exist."""
        by_name = self.catalog.by_name if self.catalog is not None else {}
        names = set[str]().union(*(self.names(subscription) for subscription in in_use))
        topics = (by_name[name] for name in names & by_name.keys())
        return {topic.topic_id: topic.partition_count for topic in topics}

    def fingerprint(self, in_use: Collection[Subscription]) -> str:
        """Return a text that changes when subscribed topics appear, go or get more partitions."""
        by_name = self.catalog.by_name if self.catalog is not None else {}
        names = set[str]().union(*(self.names(subscription) for subscription in in_use))
        digest = hashlib.blake2b(digest_size=8)
        for name in sorted(names & by_name.keys()):
            topic = by_name[name]
            digest.update(f"{name} {topic.topic_id} {topic.partition_count}\n".encode())
        return digest.hexdigest()
