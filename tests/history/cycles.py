"""Circular information flow: transactions that have read from each other (Adya's G1c).

Only edges from a writer to its readers count. Kafka does not isolate writes from each other, so
cycles through the order of writes in a log are legal.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tests.history.index import Index
from tests.history.value_checks import Finding

SHOWN: Final = 8


def circular_reads(index: Index) -> Iterator[Finding]:
    """Find sets of operations of which each has read, at least indirectly, from all others."""
    operations = {one.index: one for one in index.operations}
    for component in components(_edges(index)):
        if len(component) > 1:
            names = [str(operations[at]) for at in sorted(component)[:SHOWN]]
            yield Finding("G1c", f"{len(component)} operations: {', '.join(names)}")


def _edges(index: Index) -> dict[int, list[int]]:
    """Return the readers of each writer, without itself."""
    edges: dict[int, set[int]] = {}
    for entry, readers in index.readers.items():
        writer = index.writers.get(entry)
        if writer is not None:
            to = edges.setdefault(writer.index, set())
            to.update(one.index for one in readers if one.index != writer.index)
    return {at: sorted(to) for at, to in edges.items()}


def components(edges: Mapping[int, Sequence[int]]) -> Iterator[list[int]]:
    """Yield the strongly connected components of a graph (Tarjan 1972), without recursion."""
    search = _Search(edges)
    for root in edges:
        yield from search.from_root(root)


class _Search:
    """A depth-first search; `low` is the earliest node that one is known to lead back to."""

    def __init__(self, edges: Mapping[int, Sequence[int]]) -> None:
        self._edges = edges
        self._number: dict[int, int] = {}
        self._low: dict[int, int] = {}
        self._stack: list[int] = []
        self._on_stack: set[int] = set()

    def from_root(self, root: int) -> Iterator[list[int]]:
        if root in self._number:
            return
        path = [(root, self._enter(root))]
        while path:
            node, successors = path[-1]
            for successor in successors:
                if successor not in self._number:
                    path.append((successor, self._enter(successor)))
                    break
                if successor in self._on_stack:
                    self._low[node] = min(self._low[node], self._number[successor])
            else:
                path.pop()
                if path:
                    parent = path[-1][0]
                    self._low[parent] = min(self._low[parent], self._low[node])
                if self._low[node] == self._number[node]:
                    yield self._leave(node)

    def _enter(self, node: int) -> Iterator[int]:
        self._number[node] = self._low[node] = len(self._number)
        self._stack.append(node)
        self._on_stack.add(node)
        return iter(self._edges.get(node, ()))

    def _leave(self, node: int) -> list[int]:
        """Take a component off the stack; `node` was the first of it to be entered."""
        component: list[int] = []
        while not component or component[-1] != node:
            component.append(self._stack.pop())
            self._on_stack.discard(component[-1])
        return component
