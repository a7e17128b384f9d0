"""What must hold of the result of a job that was killed, by plain Python."""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

SHOWN: Final = 5

Name = TypeVar("Name", bound=Hashable)


def violations(
    expected: Iterable[Name],
    found: Iterable[Name],
    is_invisible: Callable[[Name], bool] = lambda _: False,
) -> list[str]:
    """Compare what is there with what has to be: nothing lost, twice, invisible or made up.

    Args:
        expected: each as often as it has to be there.
        is_invisible: whether an unexpected one is of a transaction that was aborted.
    """
    due, there = Counter(expected), Counter(found)
    unknown = [one for one in there if not due[one]]
    kinds: Mapping[str, Collection[Name]] = {
        "lost": list(due - there),
        "too often": [one for one in there - due if due[one]],
        "invisible, yet read": [one for one in unknown if is_invisible(one)],
        "never sent": [one for one in unknown if not is_invisible(one)],
    }
    return [f"{len(some)} {kind}: {_some(some)}" for kind, some in kinds.items() if some]


def disordered(
    expected: Mapping[Name, Sequence[int]], found: Mapping[Name, Sequence[int]]
) -> list[str]:
    """Return keys whose records are not in the order in which they were sent."""
    return [
        f"key {key!r}: {_first_difference(numbers, found.get(key, ()))}"
        for key, numbers in expected.items()
        if list(numbers) != list(found.get(key, ()))
    ]


def _first_difference(expected: Sequence[int], found: Sequence[int]) -> str:
    for at, (one, other) in enumerate(zip(expected, found, strict=False)):
        if one != other:
            return f"{other} where {one} belongs, at {at}"
    return f"{len(found)} records, not {len(expected)}"


def _some(names: Collection[Name]) -> str:
    shown = ", ".join(repr(name) for name in sorted(names, key=repr)[:SHOWN])
    return f"{shown}, …" if len(names) > SHOWN else shown
