"""A history as checks look at it: who wrote and who read each value, and where it stands."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tests.history.load import MalformedHistory
from tests.history.operations import Entry, Kind, Operation, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """All that several checks need, made once.

    Attributes:
        operations: in the order in which they were called.
        writers: which operation sent an entry.
        readers: which operations read an entry, each once, however they ended.
        seen: entries that operations read which are ok.
        visible: entries that are there at the end: those of the final reads, or all that were seen
            in a history without them.
        acknowledged: entries whose senders were told that they are there to stay.
        written: those, and the entries of transactions of which another entry was seen.
        values: by key and offset, what stands there by anybody's word.
        offsets: by key, those of `values` in order; between two of them are markers and records
            that were aborted.
        offsets_of: where an entry stands by anybody's word, in order.
    """

    operations: Sequence[Operation]
    writers: Mapping[Entry, Operation]
    readers: Mapping[Entry, Sequence[Operation]]
    seen: frozenset[Entry]
    visible: frozenset[Entry]
    acknowledged: frozenset[Entry]
    written: frozenset[Entry]
    values: Mapping[int, Mapping[int, frozenset[int]]]
    offsets: Mapping[int, Sequence[int]]
    offsets_of: Mapping[Entry, Sequence[int]]

    def position(self, key: int, offset: int) -> int:
        """Return how many known offsets of a key are before this one."""
        return bisect_left(self.offsets.get(key, ()), offset)


def index(operations: Sequence[Operation]) -> Index:
    """Index a history.

    Raises:
        MalformedHistory: a value was sent twice.
    """
    readers, seen = _readers(operations)
    acknowledged = _acknowledged(operations)
    written = acknowledged | _inferred(operations, seen)
    values = _values(operations, written)
    offsets_of: dict[Entry, list[int]] = defaultdict(list)
    for key, of_key in values.items():
        for offset in sorted(of_key):
            for value in of_key[offset]:
                offsets_of[Entry(key, value)].append(offset)
    return Index(
        operations=operations,
        writers=_writers(operations),
        readers=readers,
        seen=seen,
        visible=_visible(operations, otherwise=seen),
        acknowledged=acknowledged,
        written=written,
        values={
            key: {offset: frozenset(those) for offset, those in of_key.items()}
            for key, of_key in values.items()
        },
        offsets={key: sorted(of_key) for key, of_key in values.items()},
        offsets_of=offsets_of,
    )


def _writers(operations: Iterable[Operation]) -> dict[Entry, Operation]:
    writers: dict[Entry, Operation] = {}
    for one in operations:
        for send in one.sends:
            if send.entry in writers:
                raise MalformedHistory(f"{send.entry} was sent twice: {one}")
            writers[send.entry] = one
    return writers


def _readers(
    operations: Iterable[Operation],
) -> tuple[dict[Entry, list[Operation]], frozenset[Entry]]:
    """Return the readers of all entries, and the entries that ok operations read."""
    readers: dict[Entry, list[Operation]] = defaultdict(list)
    seen = set()
    for one in operations:
        entries = {Entry(key, read.value) for key, read in one.reads}
        for entry in entries:
            readers[entry].append(one)
        if one.outcome is Outcome.OK:
            seen |= entries
    return dict(readers), frozenset(seen)


def _visible(operations: Iterable[Operation], *, otherwise: frozenset[Entry]) -> frozenset[Entry]:
    final: set[int] = set()
    visible = set()
    for one in operations:
        if one.assignment is not None and one.assignment.final:
            final.add(one.process)
        elif one.process in final and one.outcome is Outcome.OK:
            visible |= {Entry(key, read.value) for key, read in one.reads}
    return frozenset(visible) if final else otherwise


def _acknowledged(operations: Iterable[Operation]) -> frozenset[Entry]:
    """Return entries acknowledged for good; without a transaction each send stands for itself."""
    return frozenset(
        send.entry
        for one in operations
        for send in one.sends
        if one.outcome is Outcome.OK or (one.kind is Kind.SEND and send.offset is not None)
    )


def _inferred(operations: Iterable[Operation], seen: frozenset[Entry]) -> frozenset[Entry]:
    """Return the entries of transactions with an unknown end that turn out to be committed."""
    return frozenset(
        send.entry
        for one in operations
        if one.kind is Kind.TRANSACTION
        and one.outcome is Outcome.INFO
        and any(send.entry in seen for send in one.sends)
        for send in one.sends
    )


def _values(
    operations: Iterable[Operation], written: frozenset[Entry]
) -> dict[int, dict[int, set[int]]]:
    """Return what stands where: all that was read, and what was written at a known offset."""
    values: dict[int, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    for one in operations:
        for key, read in one.reads:
            values[key][read.offset].add(read.value)
        for send in one.sends:
            if send.offset is not None and send.entry in written:
                values[send.entry.key][send.offset].add(send.entry.value)
    return values
