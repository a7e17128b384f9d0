"""What exactly once means: each check returns what is wrong, in words, or nothing.

A history that fails a check is planted for each of them in tests/crash/test_exactly_once_checks.py.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

from tests.crash.exactly_once_settings import ABORT, key_of, target_partition


class Copy(NamedTuple):
    """A record of an output topic.

    Attributes:
        number: the value.
        fate: what its processor was about to do with the transaction: commit or abort.
        size: how many records the transaction has.
    """

    partition: int
    offset: int
    key: int
    number: int
    fate: str
    transaction: str
    size: int


@dataclass(slots=True, kw_only=True)
class Output:
    """What the processors of one library did, by their pages, and the output as it is at the end.

    Attributes:
        committed, aborted: transactions of which the client said that they are.
        visible: what a reader of committed records gets, in the order read.
        everything: what other readers get.
        stable_ends, ends: last stable offset and end of each partition.
    """

    library: str
    committed: set[str] = field(default_factory=set)
    aborted: set[str] = field(default_factory=set)
    visible: Sequence[Copy] = ()
    everything: Sequence[Copy] = ()
    stable_ends: dict[int, int] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class History:
    """One run.

    Attributes:
        acknowledged: how many numbered records, from 0 on, the input was acknowledged to have.
        source: the numbers in the input, in the order read.
        complaints: of processors that did not end well, and of brokers' logs.
    """

    acknowledged: int
    source: Sequence[int]
    outputs: Sequence[Output]
    complaints: list[str] = field(default_factory=list)


def input_is_whole(history: History) -> Iterator[str]:
    """Find numbers that the input does not have once."""
    counts = Counter(history.source)
    for number in sorted(counts.keys() | set(range(history.acknowledged))):
        if counts[number] != 1:
            yield f"{number} is {counts[number]} times in the input"


def missing(history: History) -> Iterator[str]:
    """Find records of the input without a committed copy."""
    for output in history.outputs:
        copied = {copy.number for copy in output.visible}
        for number in sorted(set(history.source) - copied):
            yield f"{output.library}: no copy of {number}"


def doubled(history: History) -> Iterator[str]:
    """Find records with several committed copies."""
    for output in history.outputs:
        copies: dict[int, list[Copy]] = defaultdict(list)
        for copy in output.visible:
            copies[copy.number].append(copy)
        for several in copies.values():
            if len(several) > 1:
                yield f"{output.library}: {several}"


def reordered(history: History) -> Iterator[str]:
    """Find committed copies that come before an earlier record of their key."""
    for output in history.outputs:
        keys: dict[int, list[Copy]] = defaultdict(list)
        for copy in output.visible:
            keys[copy.key].append(copy)
        for copies in keys.values():
            for sooner, later in pairwise(copies):
                if later.number < sooner.number:
                    yield f"{output.library}: {later} behind {sooner}"


def misplaced(history: History) -> Iterator[str]:
    """Find copies with another key, or in another partition, than their number has."""
    for output in history.outputs:
        for copy in output.everything:
            wanted = (key_of(copy.number), target_partition(copy.number))
            if (copy.key, copy.partition) != wanted:
                yield f"{output.library}: {copy}"


def aborted_reads(history: History) -> Iterator[str]:
    """Find aborted records among the committed ones."""
    for output in history.outputs:
        for copy in output.visible:
            if copy.fate == ABORT or copy.transaction in output.aborted:
                yield f"{output.library}: {copy}"


def torn(history: History) -> Iterator[str]:
    """Find transactions of which some records are committed, and others not."""
    for output in history.outputs:
        found = Counter(copy.transaction for copy in output.visible)
        sizes = {copy.transaction: copy.size for copy in output.visible}
        for transaction, count in found.items():
            if count != sizes[transaction]:
                yield f"{output.library}: {count} of {sizes[transaction]} of {transaction}"


def lost(history: History) -> Iterator[str]:
    """Find transactions that were confirmed, and are not there."""
    for output in history.outputs:
        seen = {copy.transaction for copy in output.visible}
        for transaction in sorted(output.committed - seen):
            yield f"{output.library}: {transaction}"


def no_abort_to_see(history: History) -> Iterator[str]:
    """Find outputs without an aborted record: nothing would be shown by hiding none."""
    for output in history.outputs:
        if all(copy.fate != ABORT for copy in output.everything):
            yield output.library


def hanging(history: History) -> Iterator[str]:
    """Find partitions whose end no reader of committed records gets to."""
    for output in history.outputs:
        if output.stable_ends != output.ends:
            yield f"{output.library}: {output.stable_ends}, but the ends are {output.ends}"


def complaints(history: History) -> Iterator[str]:
    """Return what processors and brokers complained of."""
    yield from history.complaints


CHECKS: Final[tuple[Callable[[History], Iterator[str]], ...]] = (
    input_is_whole,
    missing,
    doubled,
    reordered,
    misplaced,
    aborted_reads,
    torn,
    lost,
    no_abort_to_see,
    hanging,
    complaints,
)


def violations(history: History) -> dict[str, list[str]]:
    """Return, by the name of the check, what is wrong; empty for a good history."""
    found = {check.__name__: list(check(history)) for check in CHECKS}
    return {name: wrong for name, wrong in found.items() if wrong}
