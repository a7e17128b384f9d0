"""Which of the topics that patterns match somebody may know of; each question is asked once.

Thousands of topics may match, and thousands of members may ask: those whom ACLs do not tell apart
share one answer, and when topics come or go, only those that are new are asked about.
"""

from collections.abc import Callable, Hashable
from typing import Final, Protocol

MOST_ASKED: Final = 10_000
"""Names that are asked about at a time, some 0.1 s; and all of one more pattern at most."""

_NONE: Final = frozenset[str]()


class VisibleTopics(Protocol):
    """The names of topics that somebody may know of."""

    @property
    def edition(self) -> Hashable:
        """Return what stands for the names: while it is equal, they are the same."""

    def __contains__(self, name: object, /) -> bool: ...


class Visibility(Protocol):
    """Tells which topics a user (its principal) may know of who comes from a host.

    The host is written as Kafka's tools show it.
    """

    @property
    def edition(self) -> Hashable:
        """Return what stands for all that it tells: while it is equal, that is the same."""

    def __call__(self, principal: str, client_host: str, /) -> VisibleTopics: ...


class ShownTopics:
    """What patterns show to whom.

    Attributes:
        asked: how many names were asked about so far.
    """

    def __init__(self) -> None:
        self.asked = 0
        self._edition: Hashable = None
        self._known: dict[tuple[str, Hashable], tuple[frozenset[str], frozenset[str]]] = {}
        self._used: set[tuple[str, Hashable]] = set()
        self._shared: dict[frozenset[str], frozenset[str]] = {}
        self._steps: dict[tuple[frozenset[str], ...], frozenset[str]] = {}

    def find(
        self,
        pattern: str,
        matched: frozenset[str],
        visible: VisibleTopics,
        had: frozenset[str] | None,
    ) -> frozenset[str]:
        """Return those of `matched` that are visible; those who may see the same share one set.

        Args:
            pattern: what matches them.
            matched: the same object as long as it is the same set.
            visible: to whom they are shown.
            had: what was shown before, which the answer is if it is equal.
        """
        key = pattern, visible.edition
        self._used.add(key)
        was, shown = self._known.get(key, (_NONE, _NONE))
        if was is not matched:
            shown = self._grown(was, shown, matched, visible)
            best = had if had is not None and had == shown else shown
            shown = self._shared.setdefault(best, best)
            self._known[key] = matched, shown
        return shown

    def _grown(
        self,
        was: frozenset[str],
        shown: frozenset[str],
        matched: frozenset[str],
        visible: VisibleTopics,
    ) -> frozenset[str]:
        added = self._step((was, matched), lambda: matched - was)
        self.asked += len(added)
        seen = frozenset(name for name in added if name in visible)
        return self._step((shown, matched, seen), lambda: shown & matched | seen)

    def _step(
        self, of: tuple[frozenset[str], ...], make: Callable[[], frozenset[str]]
    ) -> frozenset[str]:
        """Make a set once, for many go the same way when topics change."""
        made = self._steps.get(of)
        if made is None:
            made = self._steps[of] = make()
        return made

    def begin(self, edition: Hashable) -> None:
        """Forget all answers of before, if all that a Visibility tells is of another edition."""
        if edition != self._edition:
            self._edition = edition
            self._forget(set(self._known))

    def keep(self, patterns: set[str]) -> None:
        """Forget all patterns but these."""
        self._forget({key for key in self._known if key[0] not in patterns})

    def forget_unused(self) -> None:
        """Forget what nobody has asked for since the last time."""
        self._forget(self._known.keys() - self._used)
        self._used.clear()

    def _forget(self, keys: set[tuple[str, Hashable]]) -> None:
        for key in keys:
            del self._known[key]
        self._used -= keys
        self._steps.clear()
        self._shared = {shown: shown for _, shown in self._known.values()}
