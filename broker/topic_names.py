"""The names of topics, by what no two topics should have in common."""

from protocol.topics import collision_key


class TopicNames:
    """Finds the names that one would collide with, however many there are."""

    def __init__(self) -> None:
        self._by_key: dict[str, tuple[str, ...]] = {}  # tuples: nearly all are of one name

    def add(self, name: str) -> None:
        if name not in self.like(name):
            self._by_key[collision_key(name)] = (*self.like(name), name)

    def remove(self, name: str) -> None:
        """Forget a name that is known."""
        rest = tuple(other for other in self.like(name) if other != name)
        if rest:
            self._by_key[collision_key(name)] = rest
        else:
            del self._by_key[collision_key(name)]

    def like(self, name: str) -> tuple[str, ...]:
        """Return the known names that `name` is, or would collide with."""
        return self._by_key.get(collision_key(name), ())
