"""What must be true of every value: where it stands, who may read it, and that it is not lost."""

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from tests.history.index import Index
from tests.history.operations import Entry, Kind, Operation, Outcome


class Finding(NamedTuple):
    """Something that is wrong, by the name of its type."""

    kind: str
    detail: str


def inconsistent_offsets(index: Index) -> Iterator[Finding]:
    """Find offsets at which several values stand."""
    for key, of_key in index.values.items():
        for offset, values in of_key.items():
            if len(values) > 1:
                yield Finding("inconsistent-offsets", f"key {key} at {offset}: {sorted(values)}")


def duplicates(index: Index) -> Iterator[Finding]:
    """Find values that stand at several offsets; no producer of a history repeats itself."""
    for entry, offsets in index.offsets_of.items():
        if len(offsets) > 1:
            yield Finding("duplicate", f"{_name(entry)} at {list(offsets)}")


def lost_writes(index: Index) -> Iterator[Finding]:
    """Find values that nobody read, though somebody read what stands behind them.

    A value that stands at several offsets, which is another fault, counts in its favour: by its
    first one as a bound for others, by its last one where it is judged.
    """
    bounds: dict[int, int] = defaultdict(lambda: -1)
    for entry in index.seen:
        bounds[entry.key] = max(bounds[entry.key], index.offsets_of[entry][0])
    for entry in index.written - index.seen:
        offsets = index.offsets_of.get(entry)
        if offsets and offsets[-1] <= bounds[entry.key]:
            writer = index.writers[entry]
            bound = bounds[entry.key]
            detail = f"{_name(entry)} at {offsets[-1]} of {writer}, read up to {bound}"
            yield Finding("lost-write", detail)


def unseen(index: Index) -> Iterator[Finding]:
    """Find values that are not there at the end, though acknowledged, or read earlier."""
    for entry in (index.acknowledged | (index.written & index.seen)) - index.visible:
        yield Finding("unseen", f"{_name(entry)} of {index.writers[entry]}")


def phantom_values(index: Index) -> Iterator[Finding]:
    """Find values read that nobody sent to that key."""
    for entry, readers in index.readers.items():
        if entry not in index.writers:
            yield Finding("phantom-value", f"{_name(entry)} in {readers[0]}")


def aborted_reads(index: Index) -> Iterator[Finding]:
    """Find values read whose writers were told that they did not write them (Adya's G1a)."""
    for entry, readers in index.readers.items():
        writer = index.writers.get(entry)
        if writer is not None and writer.outcome is Outcome.FAIL:
            yield Finding("G1a", f"{_name(entry)} of {writer}, read by {readers[0]}")


def precommitted_reads(index: Index) -> Iterator[Finding]:
    """Find transactions that read what they had sent themselves."""
    for one in index.operations:
        if one.kind is Kind.TRANSACTION:
            for entry in _own(one):
                yield Finding("precommitted-read", f"{_name(entry)} in {one}")


def _own(one: Operation) -> set[Entry]:
    return {send.entry for send in one.sends} & {Entry(key, read.value) for key, read in one.reads}


def reads_before_writes(index: Index) -> Iterator[Finding]:
    """Find values read by operations that ended before their writers began to commit."""
    for entry, readers in index.readers.items():
        writer = index.writers.get(entry)
        if writer is None:
            continue
        for reader in readers:
            if reader.ended_ns < writer.visible_ns:
                detail = f"{_name(entry)} of {writer}, read by {reader} before"
                yield Finding("read-before-write", detail)


def torn_transactions(index: Index) -> Iterator[Finding]:
    """Find transactions of which some, but not all values are there at the end.

    What is left of an aborted one is an aborted read.
    """
    for one in index.operations:
        if one.kind is not Kind.TRANSACTION or one.outcome is Outcome.FAIL:
            continue
        sent = {send.entry for send in one.sends}
        there = sent & index.visible
        if there and there != sent:
            detail = f"{one}: {_names(there)} without {_names(sent - there)}"
            yield Finding("torn-txn", detail)


def copies(index: Index) -> Iterator[Finding]:
    """Find records of copied keys that have, at the end, several copies or none."""
    made: dict[Entry, list[Entry]] = defaultdict(list)
    for one in index.operations:
        for send in one.sends:
            if send.source is not None:
                made[send.source].append(send.entry)
    copied_keys = {source.key for source in made}
    for source in index.visible | made.keys():
        if source.key not in copied_keys:
            continue
        there = [entry for entry in made[source] if entry in index.visible]
        if len(there) > 1:
            yield Finding("eos-duplicate", f"{_name(source)} is in {_names(there)}")
        elif not there and source in index.visible:
            yield Finding("eos-missing", f"{_name(source)}")


def _name(entry: Entry) -> str:
    return f"key {entry.key} value {entry.value}"


def _names(entries: set[Entry] | list[Entry]) -> str:
    return ", ".join(_name(entry) for entry in sorted(entries))
