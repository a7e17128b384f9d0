"""What must be true of orders: of the polls of a process, of sends, and of ends in real time.

A position is how many known records of a key are before an offset. Positions leave out markers
and aborted records, so a reader of committed records goes from each position to the next.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import NamedTuple

from tests.history.index import Index
from tests.history.operations import Isolation, Kind, Operation, Outcome, Read
from tests.history.value_checks import Finding


def internal_polls(index: Index) -> Iterator[Finding]:
    """Find reads of one operation that jump ahead or go back; a rebalance may make them."""
    for one in index.operations:
        following: dict[int, int] = {}
        for key, read in one.reads:
            expected = following.get(key, read.offset)
            following[key] = read.offset + 1
            if read.offset != expected and key not in one.moved:
                yield from _compare(index, one, key, expected, read, prefix="int-")


def external_polls(index: Index) -> Iterator[Finding]:
    """Find operations that begin to read elsewhere than their process's last one has ended.

    Where reading goes on is known from the process's assignment and its last operation that is ok:
    after any other it goes back. A member of a group may find that others have read meanwhile;
    these findings have names of their own.
    """
    cursors: dict[int, dict[int, int]] = defaultdict(dict)
    subscribed: set[int] = set()
    for one in index.operations:
        cursor = cursors[one.process]
        suffix = "-subscribed" if one.process in subscribed else ""
        for key, read in _first_reads(one).items():
            expected = cursor.get(key, read.offset)
            if read.offset != expected and key not in one.moved:
                yield from _compare(index, one, key, expected, read, suffix=suffix)
        _advance(one, cursor)
        if one.kind is Kind.SUBSCRIBE:
            subscribed.add(one.process)
        elif one.kind is Kind.ASSIGN:
            subscribed.discard(one.process)


def _compare(
    index: Index,
    one: Operation,
    key: int,
    expected: int,
    read: Read,
    *,
    prefix: str = "",
    suffix: str = "",
) -> Iterator[Finding]:
    """Say whether a read stands before the offset that was to follow, or jumps over something."""
    if read.offset < expected:
        detail = f"key {key}: {read.offset} after {expected - 1} in {one}"
        yield Finding(f"{prefix}nonmonotonic-poll{suffix}", detail)
    elif index.position(key, read.offset) > index.position(key, expected):
        missed = index.offsets[key][index.position(key, expected)]
        detail = f"key {key}: {read.offset} without {missed} in {one}"
        yield Finding(f"{prefix}poll-skip{suffix}", detail)


def _first_reads(one: Operation) -> dict[int, Read]:
    first: dict[int, Read] = {}
    for key, read in one.reads:
        first.setdefault(key, read)
    return first


def _advance(one: Operation, cursor: dict[int, int]) -> None:
    """Change the offsets that a process is to read next."""
    if one.kind is Kind.SUBSCRIBE:
        cursor.clear()
    if one.assignment is not None:
        cursor.clear()
        starts = one.assignment.starts.items()
        cursor.update({key: offset for key, offset in starts if offset is not None})
    if one.outcome is Outcome.OK:
        cursor.update({key: read.offset + 1 for key, read in one.reads})
    for key in one.moved:
        cursor.pop(key, None)


def internal_sends(index: Index) -> Iterator[Finding]:
    """Find sends of one operation whose offsets go back."""
    for one in index.operations:
        last: dict[int, int] = {}
        for key, offset in _acknowledged(one):
            if key in last and offset <= last[key]:
                detail = f"key {key}: {offset} after {last[key]} in {one}"
                yield Finding("int-nonmonotonic-send", detail)
            last[key] = offset


def external_sends(index: Index) -> Iterator[Finding]:
    """Find operations whose sends are behind those of an earlier operation of the process."""
    greatest: dict[tuple[int, int], int] = {}
    for one in index.operations:
        offsets: dict[int, list[int]] = defaultdict(list)
        for key, offset in _acknowledged(one):
            offsets[key].append(offset)
        for key, those in offsets.items():
            before = greatest.get((one.process, key), -1)
            if min(those) <= before:
                detail = f"key {key}: {min(those)} after {before} in {one}"
                yield Finding("nonmonotonic-send", detail)
            greatest[one.process, key] = max(before, *those)


def _acknowledged(one: Operation) -> Iterator[tuple[int, int]]:
    for send in one.sends:
        if send.offset is not None:
            yield send.entry.key, send.offset


class Maxima(NamedTuple):
    """The greatest number that was known at each moment."""

    times_ns: list[int]
    numbers: list[int]

    def before(self, moment_ns: int) -> int:
        """Return the greatest number known before a moment; -1 if there is none."""
        at = bisect_left(self.times_ns, moment_ns)
        return self.numbers[at - 1] if at else -1


def _maxima(known: Iterable[tuple[int, int]]) -> Maxima:
    """Make maxima of moments and numbers in any order."""
    timed = sorted(known)
    numbers = list(accumulate((number for _, number in timed), max))
    return Maxima([moment for moment, _ in timed], numbers)


def send_inversions(index: Index) -> Iterator[Finding]:
    """Find sends that began after the acknowledgement of another, whose offset is not smaller."""
    acknowledged = _acknowledgements(index)
    for one in index.operations:
        for key, offset in _acknowledged(one):
            before = acknowledged[key].before(one.began_ns)
            if offset <= before:
                detail = f"key {key}: {offset} of {one}, after {before} was acknowledged"
                yield Finding("realtime-send-inversion", detail)


def _acknowledgements(index: Index) -> dict[int, Maxima]:
    """Return by key from which moment on which offset was known to be written."""
    known: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for one in index.operations:
        for key, offset in _acknowledged(one):
            known[key].append((one.ended_ns, offset))
    return {key: _maxima(those) for key, those in known.items()}


def end_offsets(index: Index) -> Iterator[Finding]:
    """Find end offsets that are not past an acknowledged record, or less than was told before.

    A high watermark must not be less than an earlier last stable offset, too.
    """
    acknowledged = _acknowledgements(index)
    stable = _told(index, Isolation.READ_COMMITTED)
    ends = _told(index, Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED)
    for one in index.operations:
        if one.ends is None:
            continue
        is_stable = one.ends.isolation is Isolation.READ_COMMITTED
        earlier = stable if is_stable else ends
        for key, end in one.ends.offsets.items():
            detail = f"key {key}: {one.ends.isolation} {end} in {one}"
            if key in acknowledged and not is_stable:
                written = acknowledged[key].before(one.began_ns)
                if written >= end:
                    yield Finding("end-offset-behind-ack", f"{detail}, {written} is written")
            if (before := earlier[key].before(one.began_ns)) > end:
                yield Finding("end-offset-regressed", f"{detail}, after {before}")


def passed_transactions(index: Index) -> Iterator[Finding]:
    """Find transactions that readers of committed records were past before their commit was called.

    They are held back by one that is open: by a record of theirs behind it, or by the last stable
    offset that they were told.
    """
    stable = _told(index, Isolation.READ_COMMITTED)
    read = _read(index)
    for one in index.operations:
        if one.kind is not Kind.TRANSACTION:
            continue
        for send in one.sends:
            if send.offset is None or send.entry not in index.written:
                continue  # of one that was aborted nobody knows when
            key, offset = send.entry.key, send.offset
            been = read[key].before(one.visible_ns)
            end = stable[key].before(one.visible_ns)
            if max(been, end) > offset:
                detail = f"key {key}: {offset} of {one}, {been} was read before, or {end} told"
                yield Finding("passed-transaction", detail)


def _read(index: Index) -> dict[int, Maxima]:
    known: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for one in index.operations:
        for key, read in one.reads:
            known[key].append((one.ended_ns, read.offset))
    return _by_key(known)


def _told(index: Index, *isolations: Isolation) -> dict[int, Maxima]:
    known: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for one in index.operations:
        if one.ends is not None and one.ends.isolation in isolations:
            for key, end in one.ends.offsets.items():
                known[key].append((one.ended_ns, end))
    return _by_key(known)


def _by_key(known: Mapping[int, Iterable[tuple[int, int]]]) -> dict[int, Maxima]:
    return defaultdict(
        lambda: Maxima([], []), {key: _maxima(those) for key, those in known.items()}
    )
